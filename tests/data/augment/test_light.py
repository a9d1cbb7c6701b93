"""Patches and shadows."""

import math

import pytest
import torch

from manyhands.data.augment.light import GaussianPatchBrightness, RandomShadow

GRAY = torch.full((1, 1, 3, 21, 31), 0.5)


def test_a_patch_is_brightest_at_its_center_and_fades_as_a_bell():
    patches = GaussianPatchBrightness((1, 1), (0.1, 0.1), (1.6, 1.6))
    seen = patches(GRAY, torch.tensor([[0.5, 0.5, 0.5, 0.5, 0.5]]))[0, 0, 0]
    assert seen[10, 15].item() == seen.max().item() == pytest.approx(0.8)
    # Three columns of 31 from the center, at a sigma of a tenth of the width.
    bell = math.exp(-0.5 * (3 / 31 / 0.1) ** 2)
    assert seen[10, 18].item() == pytest.approx(0.5 * (1 + 0.6 * bell))
    assert seen[0, 0].item() == pytest.approx(0.5, abs=1e-4)


def test_as_many_patches_appear_as_were_drawn():
    patches = GaussianPatchBrightness((1, 4), (0.02, 0.02), (0.0, 0.0))
    assert patches.num_uniforms == 17
    corners = torch.tensor([[0.02, 0.02], [0.98, 0.02], [0.02, 0.98], [0.98, 0.98]])
    spots = torch.cat([corners, torch.zeros(4, 2)], dim=1).flatten()
    uniforms = torch.stack([torch.cat([torch.tensor([each]), spots]) for each in (0.0, 0.4, 0.9)])
    seen = patches(GRAY.expand(3, -1, -1, -1, -1), uniforms)[:, 0, 0]
    dark = [(each < 0.25).sum().item() for each in seen]
    assert dark[0] > 0
    assert dark == [dark[0], 2 * dark[0], 4 * dark[0]]


def test_patches_multiply_and_a_factor_of_one_does_nothing(pictures):
    nothing = GaussianPatchBrightness((2, 3), (0.1, 0.3), (1.0, 1.0))
    torch.testing.assert_close(nothing(pictures, torch.rand(4, nothing.num_uniforms)), pictures)


@pytest.mark.parametrize(("side", "change"), [(0.2, -0.4), (0.8, 0.4)])
def test_a_shadow_is_a_band_that_darkens_or_brightens(side, change):
    shadow = RandomShadow(opacity=(0.4, 0.4))
    # No angle: a vertical band. Its middle is the picture's, its width the middle of the range.
    seen = shadow(GRAY, torch.tensor([[0.5, side, 0.0, 0.5, 0.5]]))[0, 0, 1]
    assert torch.equal(seen, seen[:1].expand_as(seen))
    inside, outside = seen[0, 10:21], seen[0, [0, 1, 2, -3, -2, -1]]
    torch.testing.assert_close(inside, torch.full_like(inside, 0.5 * (1 + change)))
    assert torch.equal(outside, torch.full_like(outside, 0.5))
    steps = seen[0].diff().sign()
    assert steps[:15].unique().tolist() == sorted({0.0, math.copysign(1, change)})


def test_every_shadow_falls_into_the_picture():
    generator = torch.Generator().manual_seed(0)
    uniforms = torch.rand(300, 5, generator=generator)
    seen = RandomShadow(opacity=(0.5, 0.5))(GRAY.expand(300, -1, -1, -1, -1), uniforms)
    share = (seen != 0.5).float().mean(dim=(1, 2, 3, 4))
    assert share.min() > 0.03
    assert share.max() < 0.95


def test_a_shadow_of_no_opacity_changes_nothing(pictures):
    assert torch.equal(RandomShadow(opacity=(0.0, 0.0))(pictures, torch.rand(4, 5)), pictures)
