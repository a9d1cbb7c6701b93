"""Statistics of episodes and datasets, by the rules of LeRobot's recorder."""

from collections.abc import Sequence

import numpy as np

from manyhands.lerobot_format.statistics import QUANTILES as QUANTILES
from manyhands.lerobot_format.statistics import aggregate_stats as aggregate_stats

_NUM_BINS = 5000
_BIN_MARGIN = 1e-10
_LONG_SIDE_LIMIT = 300
_LONG_SIDE_TARGET = 150
_MIN_PICTURES = 100
_MAX_PICTURES = 10_000


def number_stats(values: np.ndarray) -> dict[str, np.ndarray]:
    """Statistics of one episode's numbers (frames, ...), one entry per index of the last axis."""
    samples = values.reshape(-1, values.shape[-1] if values.ndim > 1 else 1)
    return _describe(samples) | {"count": np.array([len(values)])}


def picture_stats(pictures: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Statistics of one episode's images (height, width, channels), scaled to 0..1 by channel."""
    samples = np.concatenate([picture.reshape(-1, picture.shape[-1]) for picture in pictures])
    scaled = {name: value.reshape(-1, 1, 1) / 255 for name, value in _describe(samples).items()}
    return scaled | {"count": np.array([len(pictures)])}


def sampled_frames(num_frames: int) -> np.ndarray:
    """The frames of an episode whose images its statistics use, evenly spaced."""
    most = min(int(num_frames**0.75), _MAX_PICTURES)
    count = max(min(_MIN_PICTURES, num_frames), most)
    return np.round(np.linspace(0, num_frames - 1, count)).astype(np.int64)


def thinned(picture: np.ndarray) -> np.ndarray:
    """An image (height, width, channels) with as many pixels as statistics need."""
    long_side = max(picture.shape[:2])
    if long_side < _LONG_SIDE_LIMIT:
        return picture
    step = long_side // _LONG_SIDE_TARGET
    return picture[::step, ::step]


def _describe(samples: np.ndarray) -> dict[str, np.ndarray]:
    samples = samples.astype(np.result_type(samples.dtype, np.float32), copy=False)
    mean = samples.mean(axis=0, dtype=np.float64)
    # Squares lose the variance of values far from zero unless they are summed in full precision.
    variance = np.square(samples, dtype=np.float64).mean(axis=0) - mean**2
    described = {
        "min": samples.min(axis=0),
        "max": samples.max(axis=0),
        "mean": mean,
        "std": np.sqrt(np.maximum(variance, 0)),
    }
    if len(samples) < 2:
        return described | {"std": samples.std(axis=0)} | dict.fromkeys(QUANTILES, mean)
    by_column = np.stack([_quantiles(column) for column in samples.T], axis=1)
    return described | dict(zip(QUANTILES, by_column, strict=True))


def _quantiles(column: np.ndarray) -> np.ndarray:
    """Quantiles from a histogram, interpolated inside the bin that holds them."""
    edges = np.linspace(column.min() - _BIN_MARGIN, column.max() + _BIN_MARGIN, _NUM_BINS + 1)
    counts, _ = np.histogram(column, bins=edges)
    reached = np.cumsum(counts)
    targets = np.array(list(QUANTILES.values())) * len(column)
    bins = np.searchsorted(reached, targets)
    inside = np.clip(bins, 1, _NUM_BINS - 1)
    missing = targets - reached[inside - 1]
    share = np.divide(missing, counts[inside], where=counts[inside] > 0, out=np.zeros(len(bins)))
    values = edges[inside] + share * (edges[inside + 1] - edges[inside])
    quantiles: np.ndarray = np.select([bins == 0, bins >= _NUM_BINS], [edges[0], edges[-1]], values)
    return quantiles
