"""Types of image transform and their kwargs, normalized: ranges as (min, max)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Range = tuple[float, float]
Reader = Callable[[Any], Any]
"""Turns a raw value into its normal form, or raises a ValueError that says what is wrong."""

REQUIRED = object()  # Default of a kwarg that has none.

LARGEST_FACTOR = 1000.0
LARGEST_KERNEL = 99
INTERPOLATIONS = {"nearest": "nearest", "bilinear": "bilinear", 0: "nearest", 2: "bilinear"}
"""Ways to look between pixels, by name and by the numbers that torchvision reads."""


@dataclass(frozen=True)
class Kwarg:
    """One kwarg of a transform."""

    read: Reader
    default: Any = REQUIRED


def fixed(number: float) -> Range:
    """A range of a single value."""
    return number, number


def around_one(number: float) -> Range:
    """The range from 1 - number to 1 + number."""
    return max(0.0, 1 - _not_negative(number)), 1 + number


def around_zero(number: float) -> Range:
    """The range from -number to number."""
    return -_not_negative(number), number


def up_to(number: float) -> Range:
    """The range from zero to number."""
    return 0.0, _not_negative(number)


def reciprocals(number: float) -> Range:
    """The range from 1/number to number."""
    other = 1 / number if number else 0.0
    return min(number, other), max(number, other)


def interval(least: float, most: float, spread: Callable[[float], Range] = fixed) -> Reader:
    """Read [min, max] within bounds, or a number and the range it expands to."""

    def read(value: Any) -> Range:
        form = "a number or [min, max]"
        ends = spread(float(value)) if _is_number(value) else _numbers(value, form)
        low, high = (_within(each, least, most) for each in ends)
        if low > high:
            raise ValueError(f"is reversed. Write [{high:g}, {low:g}]")
        return low, high

    return read


def whole_interval(least: int, most: int) -> Reader:
    """Read [min, max] of integers, or a single integer."""
    read_ends = interval(least, most)

    def read(value: Any) -> tuple[int, int]:
        low, high = (_whole(each) for each in read_ends(value))
        return low, high

    return read


def number(least: float, most: float) -> Reader:
    """Read a number within bounds."""

    def read(value: Any) -> float:
        if not _is_number(value):
            raise ValueError("must be a number")
        return _within(float(value), least, most)

    return read


def whole_number(least: int, most: int) -> Reader:
    """Read an integer within bounds."""
    return lambda value: _whole(number(least, most)(value))


def fractions(value: Any) -> Range:
    """Read two fractions, of the image's width and height."""
    across, down = (_within(each, 0, 1) for each in _numbers(value, "[width, height]"))
    return across, down


def shear_ranges(value: Any) -> tuple[float, float, float, float]:
    """Read the range of the shear angle along x, and optionally along y."""
    angles = interval(-89, 89, around_zero)
    if isinstance(value, Sequence) and len(value) == 4:
        return *angles(value[:2]), *angles(value[2:])
    return *angles(value), 0.0, 0.0


def interpolation(value: Any) -> str:
    """Read the interpolation mode."""
    if not isinstance(value, str | int) or value not in INTERPOLATIONS:
        raise ValueError("must be nearest or bilinear")
    return INTERPOLATIONS[value]


def kernel_sides(value: Any) -> tuple[int, int]:
    """Read the width and height of a kernel, both odd."""
    form = "a number or [width, height]"
    ends = fixed(float(value)) if _is_number(value) else _numbers(value, form)
    width, height = (_whole(_within(each, 1, LARGEST_KERNEL)) for each in ends)
    if width % 2 == 0 or height % 2 == 0:
        raise ValueError("must be odd")
    return width, height


def odd_range(value: Any) -> tuple[int, int]:
    """Read a range of kernel sizes; its ends are rounded inward to odd numbers."""
    low, high = whole_interval(1, LARGEST_KERNEL)(value)
    low, high = low + (low + 1) % 2, high - (high + 1) % 2
    if low > high:
        raise ValueError("contains no odd number")
    return low, high


def _numbers(value: Any, form: str) -> list[float]:
    is_pair = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2
    if not is_pair or not all(_is_number(each) for each in value):
        raise ValueError(f"must be {form}")
    return [float(each) for each in value]


def _is_number(value: Any) -> bool:
    is_plain = isinstance(value, int | float) and not isinstance(value, bool)
    return is_plain and math.isfinite(value)


def _within(value: float, least: float, most: float) -> float:
    if not least <= value <= most:
        raise ValueError(f"must be from {least:g} to {most:g}")
    return value


def _not_negative(value: float) -> float:
    if value < 0:
        raise ValueError("must be at least 0")
    return value


def _whole(value: float) -> int:
    if value != int(value):
        raise ValueError("must be an integer")
    return int(value)


_FACTOR = interval(0, LARGEST_FACTOR, around_one)
_PART = number(0.001, 1)

TRANSFORM_TYPES: Mapping[str, Mapping[str, Kwarg]] = {
    "Identity": {},
    "ColorJitter": {
        "brightness": Kwarg(_FACTOR, None),
        "contrast": Kwarg(_FACTOR, None),
        "saturation": Kwarg(_FACTOR, None),
        "hue": Kwarg(interval(-0.5, 0.5, around_zero), None),
    },
    "SharpnessJitter": {"sharpness": Kwarg(_FACTOR)},
    "RandomAffine": {
        "degrees": Kwarg(interval(-360, 360, around_zero)),
        "translate": Kwarg(fractions, (0.0, 0.0)),
        "scale": Kwarg(interval(0.01, 100), (1.0, 1.0)),
        "shear": Kwarg(shear_ranges, (0.0, 0.0, 0.0, 0.0)),
        "interpolation": Kwarg(interpolation, "nearest"),
        "fill": Kwarg(number(0, 1), 0.0),
    },
    "GaussianBlur": {
        "kernel_size": Kwarg(kernel_sides),
        "sigma": Kwarg(interval(0.01, 1000), (0.1, 2.0)),
    },
    "GaussianNoise": {"std": Kwarg(interval(0, 255, up_to), (5.0, 25.0))},
    "MotionBlur": {"kernel_size": Kwarg(odd_range, (3, 11))},
    "GammaCorrection": {"gamma": Kwarg(interval(0.01, 100, reciprocals), (0.5, 2.0))},
    "CoarseDropout": {
        "max_holes": Kwarg(whole_number(1, 1000), 8),
        "max_height_frac": Kwarg(_PART, 0.07),
        "max_width_frac": Kwarg(_PART, 0.07),
        "fill_value": Kwarg(number(0, 1), 0.0),
    },
    "GaussianPatchBrightness": {
        "num_patches": Kwarg(whole_interval(1, 100), (1, 4)),
        "sigma_range": Kwarg(interval(0.001, 100), (0.05, 0.25)),
        "factor_range": Kwarg(interval(0, LARGEST_FACTOR), (0.4, 1.6)),
    },
    "RandomShadow": {"opacity": Kwarg(interval(0, 1), (0.3, 0.6))},
    "PlanckianJitter": {"temperature": Kwarg(interval(3000, 15_000), (3000.0, 15_000.0))},
}
"""Every type that can be named, with torchvision's and LeRobot's names for its kwargs."""
