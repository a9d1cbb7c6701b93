"""Counts, extremes and sums of values that lie in several files."""

import numpy as np
import pytest

from manyhands.data.checking.statistics import joined, summarize

VALUES = np.random.default_rng(0).normal(size=(20, 2, 3)).astype(np.float32)


def test_parts_come_to_the_same_as_the_whole():
    parts = joined({"a": summarize(VALUES[:7])}, {"a": summarize(VALUES[7:])})["a"]
    assert parts.num_frames == 20
    assert np.array_equal(parts.low, VALUES.min(axis=0))
    assert np.array_equal(parts.high, VALUES.max(axis=0))
    assert np.allclose(parts.mean, VALUES.mean(axis=0))


def test_features_of_one_part_only_are_kept():
    first, second = summarize(VALUES[:1]), summarize(VALUES[1:])
    assert joined({"a": first}, {"b": second}) == {"a": first, "b": second}


@pytest.mark.parametrize(("shape", "axes"), [((2, 3), (0,)), ((6,), None), ((3,), (0, 1))])
def test_a_summary_takes_the_shape_of_a_statistic(shape, axes):
    folded = summarize(VALUES).folded(shape)
    assert folded is not None
    assert folded.low.shape == folded.mean.shape == shape
    if axes is not None:
        assert np.array_equal(folded.low, VALUES.min(axis=axes))
        assert np.allclose(folded.mean, VALUES.mean(axis=axes), atol=1e-6)


def test_a_shape_that_does_not_fit_is_told():
    assert summarize(VALUES).folded((4,)) is None
    assert summarize(VALUES[:, 0, 0]).folded((2,)) is None
    assert summarize(VALUES[:, 0, 0]).folded((1,)) is not None
