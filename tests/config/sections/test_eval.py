"""Episodes of an evaluation."""

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


def test_the_usual_numbers_are_fine():
    assert EvalConfig().faults() == []
