"""Counter-based draws: their distributions, their bits, and their cost."""

import math
import zlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from manyhands.draws import counter
from manyhands.draws.counter import (
    CounterSource,
    derive_key,
    hash_words,
    normal_quantiles,
    normal_table,
)

NUM_ROWS, NUM_COLUMNS = 2_000, 2_000
CPU = torch.device("cpu")
KS_LIMIT = 1.95
"""What a Kolmogorov-Smirnov distance times sqrt(n) exceeds with a probability of 0.001."""


def source(step: int = 0, positions: Tensor | None = None) -> CounterSource:
    key = derive_key(1000, "draws", step)
    return CounterSource(key, torch.arange(NUM_ROWS) if positions is None else positions)


def ks_distance(values: Tensor, cdf: Tensor) -> float:
    """The Kolmogorov-Smirnov distance times sqrt(n), from the CDF of the sorted values."""
    places = torch.arange(len(values) + 1, dtype=torch.float64) / len(values)
    distance = torch.maximum((cdf - places[:-1]).abs().max(), (cdf - places[1:]).abs().max())
    return distance.item() * math.sqrt(len(values))


def correlation(a: Tensor, b: Tensor) -> float:
    """The correlation of two sets of numbers in standard errors."""
    both = torch.stack([a.flatten(), b.flatten()]).double()
    return torch.corrcoef(both)[0, 1].item() * math.sqrt(a.numel())


@pytest.fixture(scope="module")
def normals() -> Tensor:
    """Four million numbers."""
    return source().normal(NUM_COLUMNS)


def test_the_first_values_are_these_everywhere_and_always():
    at = torch.tensor([0, 1, 63])
    assert source(7, at).normal(2).tolist() == [
        [-0.1166599690914154, 0.20939448475837708],
        [-0.23019425570964813, 0.2133183777332306],
        [1.027145504951477, 1.4331214427947998],
    ]
    uniforms = [0.10898327827453613, 0.9136727452278137, 0.4431983232498169]
    assert source(7, at).uniform().tolist() == uniforms
    assert source(7, at).integers(1000).tolist() == [608, 413, 943]
    betas = [0.6588128209114075, 0.8347978591918945, 0.19642475247383118]
    assert source(7, at).beta(1.5).tolist() == betas
    assert source(7, at).common.integers(1000, 2).tolist() == [[66, 721]]


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9), st.integers(0, 2**63 - 1)
)
def test_words_are_mixed_as_64_bit_arithmetic_does(words, key):
    def shifted(word: int) -> int:
        return word ^ (word >> 32)

    def expected(word: int) -> int:
        first, second, third = counter.MULTIPLIERS
        word = shifted(word % 2**64) * first % 2**64
        word = (shifted(word) + key) * second % 2**64
        return shifted(shifted(word) * third % 2**64)

    found = hash_words(torch.tensor(words).unsqueeze(0), torch.tensor(key))
    assert [word % 2**64 for word in found[0].tolist()] == [expected(word) for word in words]


def test_the_table_has_the_same_bits_on_every_machine():
    exact = normal_quantiles()
    rounded = exact.float()
    steps = torch.nextafter(rounded.abs(), torch.tensor(math.inf)) - rounded.abs()
    # Distance to the nearest point where rounding changes, in units of the last place of float64.
    margin = (0.5 - (exact - rounded).abs() / steps.double()) * 2**29
    assert margin.min() > 1000
    assert zlib.crc32(rounded.numpy().tobytes()) == 1324188145
    assert torch.equal(normal_table(CPU), rounded)
    assert torch.equal(rounded, -rounded.flip(0))


def test_normal_numbers_have_the_moments_of_their_distribution(normals):
    values = normals.double()
    expected = {1: 0, 2: 1, 3: 0, 4: 3, 5: 0, 6: 15}
    variances = {1: 1, 2: 2, 3: 15, 4: 96, 5: 945, 6: 10_170}
    for power, moment in expected.items():
        error = math.sqrt(variances[power] / values.numel())
        assert abs(values.pow(power).mean().item() - moment) < 4 * error, power


def test_normal_numbers_pass_a_kolmogorov_smirnov_test(normals):
    values = normals.flatten().double().sort().values
    assert ks_distance(values, torch.special.ndtr(values)) < KS_LIMIT


@pytest.mark.parametrize("sigmas", [2.0, 3.0, 4.0])
def test_normal_numbers_have_tails(normals, sigmas):
    expected = math.erfc(sigmas / math.sqrt(2)) * normals.numel()
    assert (normals.abs() > sigmas).sum().item() == pytest.approx(expected, abs=4 * expected**0.5)
    assert 4.8 < normals.abs().max() < 6.2


def test_neighbors_in_sample_counter_and_step_are_independent(normals):
    flipped = CounterSource(derive_key(1000, "draws", 0).flip(0), torch.arange(NUM_ROWS))
    pairs = {
        "samples": (normals[1:], normals[:-1]),
        "counters": (normals[:, 1:], normals[:, :-1]),
        "pairs of one word": (normals[:, ::2], normals[:, 1::2]),
        "steps": (normals, source(1).normal(NUM_COLUMNS)),
        "keys": (normals, flipped.normal(NUM_COLUMNS)),
    }
    for name, (a, b) in pairs.items():
        assert abs(correlation(a, b)) < 4, name
        assert abs(correlation(a.square(), b.square())) < 4, name


def test_uniform_numbers_are_uniform_and_below_one():
    values = source().uniform(NUM_COLUMNS).flatten().double().sort().values
    assert ks_distance(values, values) < KS_LIMIT
    assert values.min() >= 0 and values.max() < 1
    assert torch.equal(values * 2**24, (values * 2**24).round())


@pytest.mark.parametrize("high", [1, 2, 100, 1000])
def test_integers_are_equally_likely(high):
    values = source().integers(high, NUM_COLUMNS).flatten()
    counts = torch.bincount(values, minlength=high).double()
    assert len(counts) == high
    expected = values.numel() / high
    chi_square = ((counts - expected).square() / expected).sum().item()
    assert abs(chi_square - (high - 1)) <= 4 * math.sqrt(2 * (high - 1))


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5])
def test_beta_numbers_have_their_distribution(alpha):
    positions = torch.arange(1_000_000)
    values = source(0, positions).beta(alpha).double().sort().values
    assert ks_distance(values, values**alpha) < KS_LIMIT
    assert values.min() >= 0 and values.max() < 1


def test_every_bit_of_the_input_flips_each_bit_of_the_output_half_the_time():
    num_words = 2**14
    words = torch.arange(num_words).unsqueeze(1) % 128 + (torch.arange(num_words // 128) << 32)
    words = words.flatten()[:num_words, None].clone()
    key = torch.tensor(12345)
    before = hash_words(words.clone(), key)
    bits = torch.arange(64)
    for bit in range(64):
        flipped = words ^ (1 << bit if bit < 63 else -(2**63))
        change = (hash_words(flipped, key) ^ before) >> bits & 1
        assert (change.double().mean(0) - 0.5).abs().max() < 0.04, bit


def test_a_value_depends_on_key_position_and_counter_alone():
    whole = source().normal(5, 3)
    some = source(0, torch.tensor([7, 3, 7])).normal(5, 3)
    assert torch.equal(some, whole[[7, 3, 7]])
    assert not torch.equal(source(1, torch.arange(8)).normal(5, 3), whole[:8])
    assert len(whole[:, 0, 0].unique()) > 0.99 * NUM_ROWS


def test_what_samples_have_in_common_depends_on_the_step_alone():
    rows = [source(3, torch.arange(first, 9)).common.uniform(4) for first in (0, 5)]
    assert rows[0].shape == (1, 4)
    assert torch.equal(*rows)
    assert not torch.equal(source(4).common.uniform(4), rows[0])
    drawing = source(3)
    assert not torch.equal(drawing.common.uniform(4), drawing.common.uniform(4))


def test_requests_of_any_sizes_never_get_a_value_twice():
    drawing = source(0, torch.arange(50))
    sizes = [1, 0, 3, 40, 2, 31, 500, 1, 1, 64]
    values = torch.cat([drawing._bits(size) for size in sizes], dim=1)
    assert values.shape == (50, sum(sizes))
    # Of 2**32 values, some 50 * 643 draws meet by chance less than once.
    assert len(values.unique()) >= values.numel() - 3


def test_shapes_and_types():
    drawing = source(0, torch.arange(3))
    assert drawing.num_samples == 3 and drawing.common.num_samples == 1
    assert drawing.normal().shape == drawing.integers(9).shape == drawing.beta(1.5).shape == (3,)
    assert drawing.uniform(2, 4).shape == (3, 2, 4)
    assert drawing.uniform(0).shape == (3, 0)
    assert drawing.normal(2).dtype == torch.float32 and drawing.integers(2).dtype == torch.int64
    assert source(0, torch.arange(0)).normal(4).shape == (0, 4)


def test_a_rank_of_64_does_a_64th_of_the_work(monkeypatch):
    num_words = []

    def counted(words: Tensor, key: Tensor) -> Tensor:
        num_words.append(words.numel())
        return hash_words(words, key)

    monkeypatch.setattr(counter, "hash_words", counted)
    for num_samples in (4096, 64):
        drawing = source(0, torch.arange(num_samples))
        drawing.normal(50, 32)
        drawing.beta(1.5)
    whole, own = num_words
    assert whole == 64 * own
    assert own == 64 * (50 * 32 + counter.SPARE) // 2
