"""Distances coded as pixels."""

import numpy as np
import pytest

from manyhands.lerobot_format.dataset.features import DepthScale, parse_depth_scale


def coded(meters: np.ndarray, scale: DepthScale) -> np.ndarray:
    """Pixels by LeRobot's rule."""
    low, high, values = scale.min, scale.max, meters
    if scale.use_log:
        low, high, values = (np.log(each + scale.shift) for each in (low, high, meters))
    codes = np.rint(4095 * (values - low) / (high - low))
    return np.clip(codes, 0, 4095).astype(np.uint16)


@pytest.mark.parametrize("use_log", [True, False])
def test_distances_come_back_as_exactly_as_twelve_bits_allow(use_log):
    scale = DepthScale(use_log=use_log)
    meters = np.arange(500, 4500) / 1000
    assert np.abs(scale.meters(coded(meters, scale)) - meters).max() < 0.0014


def test_the_ends_of_the_scale_bound_it():
    scale = DepthScale(min=0.2, max=4.0)
    assert scale.meters(np.array([0, 4095], np.uint16)) == pytest.approx([0.2, 4.0])
    assert scale.meters(np.array([[65535]], np.uint16)) == pytest.approx(np.array([[4.0]]))


def test_what_is_not_told_is_as_lerobot_records_it():
    assert parse_depth_scale({}) == DepthScale(0.01, 10.0, 3.5, True)
    facts = {"video.depth_min": 1, "video.depth_max": 2, "video.shift": 0, "video.use_log": False}
    assert parse_depth_scale(facts) == DepthScale(1.0, 2.0, 0.0, False)


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("depth_min", "1", "video.depth_min must be a length in meters, not '1'"),
        ("depth_min", None, "must be a length in meters, not None"),
        ("depth_max", float("nan"), "must be a length"),
        ("depth_max", float("inf"), "must be a length"),
        ("depth_max", 10**400, "must be a length"),
        ("shift", True, "must be a length"),
        ("depth_min", -1, "must be from 0 to video.depth_max"),
        ("depth_min", 10, "must be from 0 to video.depth_max"),
        ("shift", -0.01, "must be positive"),
        ("use_log", 1, "video.use_log must be true or false, not 1"),
    ],
)
def test_nonsense_is_refused_by_name(key, value, fault):
    with pytest.raises(ValueError, match=fault):
        parse_depth_scale({f"video.{key}": value})
