"""Tokens on their way to files and back."""

import pytest
import torch

from manyhands.policies.frozen_encoder import restored, storable


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_tokens_come_back_as_they_were(dtype):
    tokens = torch.randn(3, 4, 5).to(dtype)
    array = storable(tokens).numpy()
    assert array.shape == (3, 4, 5)
    assert array.itemsize == tokens.element_size()
    back = restored(torch.from_numpy(array))
    assert back.dtype is dtype and torch.equal(back, tokens)
