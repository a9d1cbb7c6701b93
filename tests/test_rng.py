"""Seeds depend on all they are told and on nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from manyhands.rng import derive_seed


def test_a_seed_is_the_same_everywhere_and_always():
    assert derive_seed(1000, "draws", 7) == 879308218659466619


@given(st.integers(0, 2**63), st.text(max_size=5), st.lists(st.integers(0, 10**9), max_size=3))
def test_seeds_fit_into_63_bits(seed, stream, indices):
    assert 0 <= derive_seed(seed, stream, *indices) < 2**63


def test_any_changed_argument_changes_the_seed():
    seeds = [
        derive_seed(seed, stream, step, rank)
        for seed in range(3)
        for stream in ("draws", "dropout")
        for step in range(5)
        for rank in range(5)
    ]
    assert len(set(seeds)) == len(seeds)
