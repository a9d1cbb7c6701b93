"""Episodes of an evaluation."""

from math import nan

import pytest

from manyhands.config.sections.eval import EvalConfig


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"n_episodes": 0}, "--eval.n_episodes=0 must be at least 1"),
        ({"batch_size": -1}, "--eval.batch_size=-1 must be at least 0"),
    ],
)
def test_numbers_that_make_no_sense_are_named(values, fault):
    assert EvalConfig(**values).faults() == [fault]


@pytest.mark.parametrize("band", [(70.0, 60.0), (-1.0, 50.0), (50.0, 101.0), (nan, 50.0)])
def test_bands_that_are_no_percentages_are_named(band):
    (fault,) = EvalConfig(expected_success=band).faults()
    low, high = band
    assert fault == (
        f"--eval.expected_success=[{low:g},{high:g}] must be percentages from 0 to 100, the lower "
        "one first, such as [59.5,67.9]"
    )


def test_the_usual_numbers_are_fine():
    assert EvalConfig().faults() == []
    for band in ((59.5, 67.9), (0.0, 100.0), (0.0, 0.0), (100.0, 100.0)):
        assert EvalConfig(expected_success=band).faults() == []
