"""The U-Net: its step codes, its modulation, and the shortcut it takes when acting."""

import math
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from manyhands.policies.diffusion.residual_block import ConvBlock
from manyhands.policies.diffusion.unet import UNet, wave_codes


def unet_of(golden, **changes) -> UNet:
    torch.manual_seed(0)
    return UNet(golden.diffusion_config(**changes), action_dim=4, observation_dim=7)


def inputs(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    noisy = torch.randn(3, 16, 4, generator=random, dtype=dtype)
    return noisy, torch.tensor([7, 0, 99]), torch.randn(3, 7, generator=random, dtype=dtype)


def test_step_codes_are_sines_then_cosines():
    waves = [10000 ** -(place / 3) for place in range(4)]
    expected = [[f(step * wave) for f in (math.sin, math.cos) for wave in waves] for step in (0, 5)]
    torch.testing.assert_close(wave_codes(6, 8)[[0, 5]], torch.tensor(expected))


@pytest.mark.parametrize("has_scale", [True, False])
@pytest.mark.parametrize("down_dims", [(16,), (16, 32, 64)])
def test_acting_computes_what_training_does(golden, has_scale, down_dims):
    unet = unet_of(golden, use_film_scale_modulation=has_scale, down_dims=down_dims).double()
    noisy, _, observed = inputs(torch.float64)
    timesteps = torch.tensor([90, 40, 0])
    denoise = unet.denoiser(timesteps, observed)
    for number, timestep in enumerate(timesteps):
        expected = unet(noisy, timestep.expand(3), observed)
        torch.testing.assert_close(denoise(noisy, number), expected, rtol=1e-12, atol=1e-12)


def test_groups_are_as_told_but_for_the_last_norm(golden):
    unet = unet_of(golden, n_groups=4)
    groups = [part.num_groups for part in unet.modules() if isinstance(part, nn.GroupNorm)]
    assert groups[-1] == 8 and set(groups[:-1]) == {4}


@pytest.mark.parametrize("kernel", [1, 3, 7])
def test_no_kernel_changes_the_length(golden, kernel):
    assert unet_of(golden, kernel_size=kernel)(*inputs()).shape == (3, 16, 4)
    assert ConvBlock(4, 8, kernel, 8)(torch.zeros(2, 5, 4)).shape == (2, 5, 8)


def test_weights_lie_in_memory_as_values_do(golden):
    convs = [each for each in unet_of(golden).modules() if isinstance(each, nn.Conv1d)]
    assert all(conv.weight.mT.is_contiguous() for conv in convs)


def test_blocks_may_be_computed_again_instead_of_kept(golden):
    plain = unet_of(golden)
    twice = unet_of(golden, gradient_checkpointing=True)
    outputs = [unet(*inputs()) for unet in (plain, twice)]
    for output in outputs:
        output.square().sum().backward()
    assert torch.equal(*outputs)
    for one, other in zip(plain.parameters(), twice.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_samples_do_not_mix(golden):
    unet = unet_of(golden)
    noisy, timesteps, observed = inputs()
    alone = unet(noisy[1:2], timesteps[1:2], observed[1:2])
    torch.testing.assert_close(unet(noisy, timesteps, observed)[1:2], alone)


def test_copies_and_modes_change_nothing(golden):
    unet = unet_of(golden)
    assert torch.equal(unet.train()(*inputs()), deepcopy(unet).eval()(*inputs()))
