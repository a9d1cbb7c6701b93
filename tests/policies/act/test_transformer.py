"""Attention and the stacks around it."""

import pytest
import torch
from torch import nn

from manyhands.policies.act.transformer import Attention, Decoder, Encoder


@pytest.fixture
def tokens():
    return torch.randn(2, 7, 32, generator=torch.Generator().manual_seed(0))


def test_attention_is_pytorchs_with_the_same_tensors(tokens):
    attention, reference = Attention(32, 4, 0.0), nn.MultiheadAttention(32, 4, batch_first=True)
    reference.load_state_dict(attention.state_dict())
    assert list(reference.state_dict()) == list(attention.state_dict())
    is_pad = torch.arange(7) >= torch.tensor([[7], [4]])
    keys = tokens + 1
    expected, _ = reference(keys, keys, tokens, key_padding_mask=is_pad)
    torch.testing.assert_close(attention(keys, keys, tokens, ~is_pad[:, None, None]), expected)
    expected, _ = reference(tokens[:, :3], keys, tokens)
    torch.testing.assert_close(attention(tokens[:, :3], keys, tokens), expected)


@pytest.mark.parametrize("pre_norm", [True, False])
def test_the_first_outputs_alone_equal_the_first_of_all(golden, tokens, pre_norm):
    encoder = Encoder(golden.act_config(pre_norm=pre_norm), num_layers=2)
    position = torch.randn(7, 32, generator=torch.Generator().manual_seed(1))
    every, first = encoder(tokens, position), encoder(tokens, position, num_outputs=1)
    torch.testing.assert_close(first, every[:, :1])


def test_hidden_tokens_change_nothing(golden, tokens):
    encoder = Encoder(golden.act_config(), num_layers=2)
    visible = (torch.arange(7) < 5).expand(2, 1, 1, 7)
    changed = tokens.clone()
    changed[:, 5:] = 3.0
    position = torch.zeros(7, 32)
    torch.testing.assert_close(
        encoder(tokens, position, visible)[:, :5], encoder(changed, position, visible)[:, :5]
    )


def test_the_decoder_gives_a_token_per_action_place(golden, tokens):
    decoder = Decoder(golden.act_config(n_decoder_layers=2))
    places = torch.randn(8, 32, generator=torch.Generator().manual_seed(2))
    assert decoder(places, tokens, torch.zeros(7, 32)).shape == (2, 8, 32)
