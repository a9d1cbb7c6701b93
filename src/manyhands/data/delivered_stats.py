"""Recorded statistics as they fit what is delivered: other names, units and shapes."""

from collections.abc import Mapping

import numpy as np

from manyhands.data.images.formats import depth_factor
from manyhands.data.read_options import ReadOptions
from manyhands.lerobot_format.dataset.features import Feature
from manyhands.types import Stats


def delivered_stats(stats: Stats, features: Mapping[str, Feature], reading: ReadOptions) -> Stats:
    """Statistics by delivered name."""
    return {
        reading.delivered(key): _fitted(values, key, features[key], reading)
        if key in features
        else values
        for key, values in stats.items()
    }


def _fitted(
    values: dict[str, np.ndarray], key: str, feature: Feature, reading: ReadOptions
) -> dict[str, np.ndarray]:
    if feature.is_depth:
        factor = depth_factor(feature, reading.depth_unit)
        return {name: each if name == "count" else each * factor for name, each in values.items()}
    if not reading.is_vector(key, feature):
        return values
    shape = feature.shape or (1,)
    return {
        name: each if name == "count" else _flattened(each, shape) for name, each in values.items()
    }


def _flattened(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A statistic of a nested feature, which may have its last axis only, as a vector."""
    try:
        return np.broadcast_to(value, shape).reshape(-1)
    except ValueError:
        # The check of statistics rejects it by name.
        return value
