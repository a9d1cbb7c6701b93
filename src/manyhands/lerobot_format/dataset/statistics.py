"""Statistics of episodes and datasets: validation and aggregation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from manyhands.lerobot_format.dataset.features import Feature
from manyhands.types import Stats

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
_COUNT = "count"
_MOMENTS = ("min", "max", "mean", "std", _COUNT)  # Needed to aggregate episodes


def parse_stats(document: Any, features: Mapping[str, Feature]) -> Stats:
    """Parse statistics from nested lists; raises ValueError that names an invalid one."""
    if not isinstance(document, Mapping):
        raise ValueError(f"statistics must be an object, not {document!r:.60}")
    return {key: _parse_feature_stats(key, each, features) for key, each in document.items()}


def aggregate_stats(parts: Sequence[Mapping[str, Mapping[str, Any]]]) -> Stats:
    """Aggregate statistics of episodes or datasets; raises ValueError for an invalid one."""
    keys = dict.fromkeys(key for part in parts for key in part)
    # Features with infinities have such statistics, so NumPy's warnings are ignored.
    with np.errstate(over="ignore", invalid="ignore"):
        return {key: _aggregate(key, [part[key] for part in parts if key in part]) for key in keys}


def _parse_feature_stats(
    key: str, document: Any, features: Mapping[str, Feature]
) -> dict[str, np.ndarray]:
    if not isinstance(document, Mapping):
        raise ValueError(f"the statistics of {key} must be an object, not {document!r:.60}")
    stats = {name: _array(f"{name} of {key}", value) for name, value in document.items()}
    for name, value in stats.items():
        if not _fits(name, value, features.get(key)):
            raise ValueError(f"{name} of {key} has the unexpected shape {list(value.shape)}")
    return stats


def _array(name: str, value: Any) -> np.ndarray:
    try:
        array = np.atleast_1d(np.asarray(value))
    except (OverflowError, ValueError):
        raise ValueError(f"{name} is {value!r:.60}, which has no valid shape") from None
    # The minimum and maximum of booleans are stored as booleans.
    array = array.astype(np.float64) if array.dtype.kind == "b" else array
    if array.dtype.kind not in "if" or not array.size:
        raise ValueError(f"{name} is {value!r:.60}, which is not a number")
    return array


def _fits(name: str, value: np.ndarray, feature: Feature | None) -> bool:
    """Whether a statistic broadcasts to the values of a feature; not all are declared."""
    if name == _COUNT:
        return value.shape == (1,)
    if feature is None or not feature.shape:
        return True
    if feature.is_camera:
        # Some recorders always count three channels.
        return value.shape[0] in (1, 3, *feature.shape)
    return value.shape[-1] in (1, feature.shape[-1])


def _aggregate(key: str, parts: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    shared = [name for name in QUANTILES if all(name in part for part in parts)]
    stacked = {name: _stacked(key, name, parts) for name in [*_MOMENTS, *shared]}
    counts = stacked[_COUNT].reshape(len(parts), -1).sum(axis=1)
    if not np.isfinite(counts).all() or (counts < 0).any() or not counts.any():
        raise ValueError(f"{_COUNT} of {key} must be the number of its values")
    # Episodes without frames have no statistics.
    stacked = {name: values[counts > 0] for name, values in stacked.items()}
    counts = counts[counts > 0]
    mean = _weighted(stacked["mean"], counts)
    variance = _weighted(stacked["std"] ** 2 + (stacked["mean"] - mean) ** 2, counts)
    return {
        "min": stacked["min"].min(axis=0),
        "max": stacked["max"].max(axis=0),
        "mean": mean,
        "std": np.sqrt(variance),
        _COUNT: np.array([counts.sum()]),
        **{name: _weighted(stacked[name], counts) for name in shared},
    }


def _stacked(key: str, name: str, parts: Sequence[Mapping[str, Any]]) -> np.ndarray:
    if not all(name in part for part in parts):
        raise ValueError(f"{name} of {key} is missing in some episodes")
    values = _array(f"{name} of {key} in some episodes", [part[name] for part in parts])
    return values.reshape(len(parts), -1) if values.ndim == 1 else values


def _weighted(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    weights = counts.reshape(-1, *[1] * (values.ndim - 1))
    average: np.ndarray = (values * weights).sum(axis=0) / counts.sum()
    return average
