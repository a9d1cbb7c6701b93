"""Noise: normal, independent, and a function of the seed."""

import pytest
import torch

from manyhands.data.augment.corruption import GaussianNoise, normal_numbers, scrambled

SEEDS = torch.tensor([0, 1, 2, 2**24 - 1])


def test_the_numbers_are_standard_normal():
    numbers = normal_numbers(SEEDS, 100_000).double()
    assert numbers.mean(1).abs().max() < 0.015
    assert (numbers.std(1) - 1).abs().max() < 0.01
    assert ((numbers.abs() < 1).double().mean(1) - 0.6827).abs().max() < 0.006
    assert (numbers**4).mean(1).sub(3).abs().max() < 0.1
    assert numbers.isfinite().all()


@pytest.mark.parametrize("lag", [1, 2, 3, 96, 640, 4096])
def test_neighbors_know_nothing_of_each_other(lag):
    numbers = normal_numbers(SEEDS, 100_000)
    assert (numbers[:, lag:] * numbers[:, :-lag]).mean(1).abs().max() < 0.015


def test_seeds_know_nothing_of_each_other():
    numbers = normal_numbers(SEEDS, 100_000)
    correlation = numbers @ numbers.T / 100_000 - torch.eye(4)
    assert correlation.abs().max() < 0.02


def test_a_sample_has_its_noise_in_any_batch():
    torch.testing.assert_close(normal_numbers(SEEDS, 999)[2:3], normal_numbers(SEEDS[2:3], 999))


def test_the_hash_meets_every_number_once():
    assert len(scrambled(torch.arange(2**16)).unique()) == 2**16
    assert scrambled(torch.tensor([2**32 - 1])).item() < 2**32


def test_strength_counts_levels_of_255(pictures):
    gray = torch.full((1, 1, 3, 100, 100), 0.5)
    noisy = GaussianNoise(std=(0.0, 10.0))(gray, torch.tensor([[1.0, 0.3]]))
    assert (noisy - gray).std().item() * 255 == pytest.approx(10, rel=0.02)
    assert torch.equal(GaussianNoise(std=(0.0, 0.0))(pictures, torch.rand(4, 2)), pictures)


def test_frames_share_the_strength_but_not_the_grain():
    gray = torch.full((1, 2, 3, 50, 50), 0.5)
    first, second = GaussianNoise(std=(9.0, 9.0))(gray, torch.rand(1, 2))[0] - 0.5
    assert not torch.allclose(first, second)
    assert first.std().item() == pytest.approx(second.std().item(), rel=0.05)
