"""Residual blocks of the U-Net, and the faster paths of predictions on a GPU."""

import pytest
import torch
from torch import nn

from manyhands.policies.diffusion import residual_block
from manyhands.policies.diffusion.residual_block import (
    ConvBlock,
    ResidualBlock,
    group_norm,
)


def test_a_block_is_scaled_and_shifted_by_its_condition(golden):
    torch.manual_seed(0)
    block = ResidualBlock(4, 8, 5, golden.diffusion_config())
    hidden, condition = torch.randn(2, 16, 4), torch.randn(2, 5)
    scale, shift = block.cond_encoder(condition)[:, None].split(8, dim=-1)
    shortcut = block.residual_conv(hidden.mT).mT
    expected = block.conv2(scale * block.conv1(hidden) + shift) + shortcut
    torch.testing.assert_close(block(hidden, nn.functional.mish(condition)), expected)


def test_a_block_may_be_shifted_alone(golden):
    torch.manual_seed(0)
    block = ResidualBlock(8, 8, 5, golden.diffusion_config(use_film_scale_modulation=False))
    hidden, condition = torch.randn(2, 16, 8), torch.randn(2, 5)
    shift = block.cond_encoder(condition)[:, None]
    expected = block.conv2(block.conv1(hidden) + shift) + hidden
    torch.testing.assert_close(block(hidden, nn.functional.mish(condition)), expected)


def test_a_norm_is_that_of_torch_with_its_channels_last():
    torch.manual_seed(0)
    norm = nn.GroupNorm(3, 12).double()
    nn.init.normal_(norm.weight)
    hidden = torch.randn(2, 7, 12).double() * 3 + 5
    torch.testing.assert_close(group_norm(hidden, norm), norm(hidden.mT).mT, rtol=0, atol=1e-12)
    assert group_norm(hidden.bfloat16(), norm.bfloat16()).dtype == torch.float32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
class TestOnAGpu:
    """What only a real device can show."""

    @pytest.mark.parametrize("num_samples", [1, 4, 64])
    @pytest.mark.parametrize("has_scale", [True, False])
    def test_predictions_are_those_of_the_slower_path(self, golden, num_samples, has_scale):
        torch.manual_seed(0)
        config = golden.diffusion_config(use_film_scale_modulation=has_scale)
        block = ResidualBlock(8, 16, 5, config).cuda()
        hidden, condition = torch.randn(num_samples, 16, 8), torch.randn(num_samples, 5)
        expected = block(hidden.cuda(), condition.cuda()).detach()
        with torch.no_grad():
            found = block(hidden.cuda(), condition.cuda())
        # Convolutions of a GPU round their inputs to ten bits.
        torch.testing.assert_close(found, expected, rtol=5e-3, atol=5e-3)

    def test_a_machine_without_a_compiler_predicts_too(self, monkeypatch):
        block = ConvBlock(4, 8, 3, 2).cuda()
        hidden = torch.randn(2, 16, 4, device="cuda")
        with torch.no_grad():
            expected = block(hidden)
            monkeypatch.setattr(residual_block, "can_run_kernels", lambda device: False)
            # Either way a GPU rounds inputs of convolutions to ten bits.
            torch.testing.assert_close(block(hidden), expected, rtol=5e-3, atol=5e-3)
