"""Kwargs of transforms: every form that torchvision and LeRobot read, in one normal form."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.config.sections.transform_types import (
    REQUIRED,
    TRANSFORM_TYPES,
    around_one,
    interval,
)

FINITE = st.floats(-1e6, 1e6)


def read(kind, name, value):
    return TRANSFORM_TYPES[kind][name].read(value)


@pytest.mark.parametrize(
    ("kind", "name", "value", "normal"),
    [
        ("ColorJitter", "brightness", [0.8, 1.2], (0.8, 1.2)),
        ("ColorJitter", "brightness", (0.8, 1.2), (0.8, 1.2)),
        ("ColorJitter", "brightness", 0.25, (0.75, 1.25)),
        ("ColorJitter", "contrast", 3, (0.0, 4.0)),
        ("ColorJitter", "hue", 0.5, (-0.5, 0.5)),
        ("ColorJitter", "hue", [-0.1, 0.2], (-0.1, 0.2)),
        ("SharpnessJitter", "sharpness", 0.5, (0.5, 1.5)),
        ("RandomAffine", "degrees", 5, (-5.0, 5.0)),
        ("RandomAffine", "translate", [0.1, 0.2], (0.1, 0.2)),
        ("RandomAffine", "scale", [0.9, 1.1], (0.9, 1.1)),
        ("RandomAffine", "shear", 10, (-10.0, 10.0, 0.0, 0.0)),
        ("RandomAffine", "shear", [1, 2], (1.0, 2.0, 0.0, 0.0)),
        ("RandomAffine", "shear", [1, 2, 3, 4], (1.0, 2.0, 3.0, 4.0)),
        ("RandomAffine", "interpolation", "bilinear", "bilinear"),
        ("RandomAffine", "interpolation", 2, "bilinear"),
        ("RandomAffine", "interpolation", 0, "nearest"),
        ("RandomAffine", "fill", 1, 1.0),
        ("GaussianBlur", "kernel_size", 5, (5, 5)),
        ("GaussianBlur", "kernel_size", [3, 7], (3, 7)),
        ("GaussianBlur", "sigma", 1.5, (1.5, 1.5)),
        ("GaussianNoise", "std", 10, (0.0, 10.0)),
        ("MotionBlur", "kernel_size", 7, (7, 7)),
        ("MotionBlur", "kernel_size", [4, 10], (5, 9)),
        ("GammaCorrection", "gamma", 2, (0.5, 2.0)),
        ("GammaCorrection", "gamma", 0.5, (0.5, 2.0)),
        ("CoarseDropout", "max_holes", 3, 3),
        ("GaussianPatchBrightness", "num_patches", 2, (2, 2)),
        ("GaussianPatchBrightness", "num_patches", [1, 4.0], (1, 4)),
        ("RandomShadow", "opacity", 0.4, (0.4, 0.4)),
        ("PlanckianJitter", "temperature", [4000, 9000], (4000.0, 9000.0)),
    ],
)
def test_a_value_is_read_in_each_of_its_forms(kind, name, value, normal):
    assert read(kind, name, value) == normal


@pytest.mark.parametrize(
    ("kind", "name", "value", "words"),
    [
        ("ColorJitter", "brightness", [1.2, 0.8], r"reversed. Write \[0.8, 1.2\]"),
        ("ColorJitter", "brightness", -0.1, "must be at least 0"),
        ("ColorJitter", "brightness", [-0.1, 1], "from 0 to 1000"),
        ("ColorJitter", "brightness", "bright", r"a number or \[min, max\]"),
        ("ColorJitter", "brightness", "12", r"a number or \[min, max\]"),
        ("ColorJitter", "brightness", [1, 2, 3], r"a number or \[min, max\]"),
        ("ColorJitter", "brightness", [0, "1"], r"a number or \[min, max\]"),
        ("ColorJitter", "brightness", True, r"a number or \[min, max\]"),
        ("ColorJitter", "brightness", math.nan, r"a number or \[min, max\]"),
        ("ColorJitter", "brightness", [0, math.inf], r"a number or \[min, max\]"),
        ("ColorJitter", "brightness", {"min": 1}, r"a number or \[min, max\]"),
        ("ColorJitter", "hue", 0.6, "from -0.5 to 0.5"),
        ("RandomAffine", "translate", 0.1, r"must be \[width, height\]"),
        ("RandomAffine", "translate", [0.1, 2], "from 0 to 1"),
        ("RandomAffine", "scale", 0, "from 0.01"),
        ("RandomAffine", "shear", [1, 2, 3], "a number or"),
        ("RandomAffine", "shear", 90, "from -89 to 89"),
        ("RandomAffine", "interpolation", "cubic", "nearest or bilinear"),
        ("RandomAffine", "interpolation", [1], "nearest or bilinear"),
        ("RandomAffine", "fill", 128, "from 0 to 1"),
        ("RandomAffine", "fill", [0, 0, 0], "must be a number"),
        ("GaussianBlur", "kernel_size", 4, "odd"),
        ("GaussianBlur", "kernel_size", [3, 4], "odd"),
        ("GaussianBlur", "kernel_size", 2.5, "an integer"),
        ("GaussianBlur", "sigma", 0, "from 0.01"),
        ("MotionBlur", "kernel_size", [4, 4], "no odd number"),
        ("MotionBlur", "kernel_size", 1001, "from 1 to 99"),
        ("GammaCorrection", "gamma", 0, "from 0.01"),
        ("CoarseDropout", "max_holes", 0, "from 1"),
        ("CoarseDropout", "max_holes", 1.5, "an integer"),
        ("GaussianPatchBrightness", "num_patches", [1.5, 2], "an integer"),
        ("PlanckianJitter", "temperature", 100, "from 3000 to 15000"),
    ],
)
def test_a_value_that_cannot_be_is_told_why(kind, name, value, words):
    with pytest.raises(ValueError, match=words):
        read(kind, name, value)


@pytest.mark.parametrize("kind", TRANSFORM_TYPES)
def test_every_default_is_a_value_its_reader_takes(kind):
    for name, kwarg in TRANSFORM_TYPES[kind].items():
        if kwarg.default not in (None, REQUIRED):
            assert kwarg.read(kwarg.default) == kwarg.default, name


@given(FINITE | st.tuples(FINITE, FINITE) | st.text() | st.none() | st.lists(FINITE))
def test_what_is_read_is_ordered_and_within_bounds(value):
    try:
        low, high = interval(-3, 7, around_one)(value)
    except ValueError as error:
        assert str(error)
    else:
        assert -3 <= low <= high <= 7
