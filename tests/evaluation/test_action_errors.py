"""Errors by joint and by time ahead."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.evaluation.action_errors import (
    ABSOLUTE,
    SQUARED,
    action_errors,
    added,
    errors_document,
    joint_names,
)
from manyhands.lerobot_format.dataset.features import Feature


def draw_case(seed, num_samples, num_steps, num_joints):
    random = np.random.default_rng(seed)
    predicted, recorded = random.normal(size=(2, num_samples, num_steps, num_joints))
    lengths = random.integers(1, num_steps + 1, size=num_samples)
    return predicted, recorded, np.arange(num_steps) >= lengths[:, None]


@given(st.integers(0, 99), st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(1, 3)))
def test_every_error_is_the_mean_over_the_steps_that_are_recorded(seed, sizes):
    predicted, recorded, is_pad = draw_case(seed, *sizes)
    errors = added([action_errors(predicted, recorded, is_pad)])
    distance = np.abs(predicted - recorded)
    real = distance[~is_pad]
    assert errors.num_samples == sizes[0]
    assert errors.overall()[ABSOLUTE] == pytest.approx(real.mean())
    assert errors.overall()[SQUARED] == pytest.approx((real**2).mean() ** 0.5)
    assert errors.of_joint(0)[ABSOLUTE] == pytest.approx(real[:, 0].mean())
    for step in range(len(errors.counts)):
        here = distance[~is_pad[:, step], step]
        assert errors.counts[step] == len(here)
        assert errors.at_step(step)[ABSOLUTE] == pytest.approx(here.mean())
        assert errors.of_joint_at_step(0, step)[SQUARED] == pytest.approx(
            (here[:, 0] ** 2).mean() ** 0.5
        )


def test_what_is_padded_does_not_count_whatever_it_is():
    predicted, recorded, is_pad = draw_case(0, 5, 4, 2)
    expected = action_errors(predicted, recorded, is_pad)
    recorded[is_pad] = np.nan
    found = action_errors(predicted, recorded, is_pad)
    assert np.array_equal(found.absolute, expected.absolute)
    assert np.array_equal(found.squared, expected.squared)


def test_steps_that_no_recording_reaches_are_dropped():
    predicted, recorded, is_pad = draw_case(0, 5, 4, 2)
    is_pad[:, 2:] = True
    document = errors_document(added([action_errors(predicted, recorded, is_pad)]), "xy", 10)
    assert [row["step"] for row in document["time_ahead"]] == [0, 1]
    assert [row["seconds"] for row in document["time_ahead"]] == [0.0, 0.1]
    assert set(document["time_ahead"][1]["joints"]) == {"x", "y"}


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (["x", "y"], ["x", "y"]),
        ({"motors": ["x", "y"]}, ["x", "y"]),
        ({"x": 0, "y": 1}, ["x", "y"]),
        (None, ["action 0", "action 1"]),
        (["x"], ["action 0", "action 1"]),
    ],
)
def test_joints_have_the_names_of_the_dataset(declared, expected):
    assert joint_names(Feature("float32", (2,), declared)) == expected
