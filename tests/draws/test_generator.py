"""Draws from torch's generators."""

import torch
from torch.distributions import Beta

from manyhands.draws.generator import GeneratorSource


def test_a_source_without_a_generator_draws_from_the_global_one_in_order():
    torch.manual_seed(3)
    source = GeneratorSource(4)
    drawn = [source.normal(2, 3), source.common.integers(9), source.integers(9), source.uniform(2)]
    torch.manual_seed(3)
    expected = [torch.randn(4, 2, 3), torch.randint(9, (1,)), torch.randint(9, (4,))]
    expected += [torch.rand(4, 2)]
    assert all(torch.equal(*pair) for pair in zip(drawn, expected, strict=True))


def test_a_generator_leaves_the_global_one_alone():
    torch.manual_seed(3)
    first, again = (GeneratorSource(4, torch.Generator().manual_seed(5)) for _ in range(2))
    for each in ("normal", "uniform"):
        assert torch.equal(getattr(first, each)(2), getattr(again, each)(2))
    assert torch.equal(first.integers(5, 3), again.integers(5, 3))
    assert torch.equal(first.beta(1.5), again.beta(1.5))
    assert torch.equal(first.common.normal(), again.common.normal())
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(1))


def test_beta_numbers_are_torchs():
    torch.manual_seed(3)
    drawn = GeneratorSource(6).beta(1.5)
    torch.manual_seed(3)
    assert torch.equal(drawn, Beta(torch.tensor(1.5), torch.tensor(1.0)).sample((6,)))


def test_only_what_lerobot_draws_on_the_cpu_stays_there():
    source = GeneratorSource(2, device=torch.device("meta"))
    assert source.normal(3).is_meta and source.integers(4).is_meta and source.uniform(1).is_meta
    assert source.common.integers(4).device.type == source.beta(1.5).device.type == "cpu"
