"""Work beside other work."""

import pytest
import torch

from manyhands.parallel.cuda import on_side_stream


def test_a_cpu_has_one_stream_only():
    with on_side_stream(torch.device("cpu")):
        assert torch.ones(1).add(1) == 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_work_aside_comes_after_what_was_before_and_before_what_comes_later():
    device = torch.device("cuda")
    value = torch.zeros(1 << 24, device=device)
    default = torch.cuda.current_stream()
    for number in range(20):
        value.add_(1)
        with on_side_stream(device):
            assert torch.cuda.current_stream() != default
            value.mul_(2)
        value.sub_(2 * number)
    expected = 0
    for number in range(20):
        expected = 2 * (expected + 1) - 2 * number
    assert value.eq(expected).all()
