"""Statistics of episodes and datasets, by the rules of LeRobot's recorder."""

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from manyhands.atomic import atomic_file
from manyhands.data.dataset import Dataset
from manyhands.lerobot_format.dataset.episode_stats import read_episode_stats
from manyhands.lerobot_format.dataset.statistics import QUANTILES, aggregate_stats
from manyhands.types import Stats

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


def image_stats(pictures: Sequence[np.ndarray], is_depth: bool = False) -> dict[str, np.ndarray]:
    """Statistics of one episode's images (height, width, channels): distances, or colors 0..1."""
    samples = np.concatenate([picture.reshape(-1, picture.shape[-1]) for picture in pictures])
    largest = 1 if is_depth else 255
    scaled = {name: value.reshape(-1, 1, 1) / largest for name, value in _describe(samples).items()}
    return scaled | {"count": np.array([len(pictures)])}


def sampled_frames(num_frames: int) -> np.ndarray:
    """The frames of an episode whose images its statistics use, evenly spaced."""
    most = min(int(num_frames**0.75), _MAX_PICTURES)
    count = max(min(_MIN_PICTURES, num_frames), most)
    return np.round(np.linspace(0, num_frames - 1, count)).astype(np.int64)


def subsampled(picture: np.ndarray) -> np.ndarray:
    """An image (height, width, channels) with as many pixels as statistics need."""
    long_side = max(picture.shape[:2])
    if long_side < _LONG_SIDE_LIMIT:
        return picture
    step = long_side // _LONG_SIDE_TARGET
    return picture[::step, ::step]


# Values that are not finite are reported with the feature's name; NumPy would warn without it.
@np.errstate(invalid="ignore", over="ignore")
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


STATS_FOLDER = "stats"

Progress = Callable[[int, int], None]  # Called with the number of episodes done and the total


def complete_stats(
    dataset: Dataset, of_chosen_episodes: bool, on_progress: Progress = lambda done, total: None
) -> Stats:
    """Statistics by delivered name of all that is read: of the dataset, or the chosen episodes."""
    known = _chosen_stats(dataset) if of_chosen_episodes else dataset.stats
    lacking = [
        key
        for key, feature in dataset.features.items()
        if (feature.is_number or feature.is_camera) and key not in known
    ]
    if not lacking:
        return known
    file = _cache_file(dataset, lacking)
    computed = _read(file)
    if computed is None:
        computed = compute_stats(dataset, lacking, on_progress)
        _write_cached(file, computed)
    return known | computed


def compute_stats(dataset: Dataset, keys: Sequence[str], on_progress: Progress) -> Stats:
    """Statistics of the chosen episodes, by the rules of LeRobot's recorder."""
    parts, bounds = [], dataset.frame_bounds
    for number, (first, end) in enumerate(bounds.tolist()):
        if end > first:
            parts.append({key: _episode_stats(dataset, key, first, end) for key in keys})
        on_progress(number + 1, len(bounds))
    return aggregate_stats(parts)


def _chosen_stats(dataset: Dataset) -> Stats:
    parts = read_episode_stats(dataset.root, dataset.info, dataset.episodes)
    if parts is None:
        return {}
    shared = set.intersection(*(set(part) for part in parts))
    whole = aggregate_stats([{key: part[key] for key in part if key in shared} for part in parts])
    return dataset.delivered_stats(whole)


def _episode_stats(dataset: Dataset, key: str, first: int, end: int) -> dict[str, np.ndarray]:
    feature = dataset.features[key]
    if feature.is_number:
        return number_stats(dataset.column_values(key, np.arange(first, end)))
    frames = first + sampled_frames(end - first)
    pictures = [
        subsampled(dataset.column_values(key, frame[None])[0].transpose(1, 2, 0))
        for frame in frames
    ]
    return image_stats(pictures, feature.is_depth)


def _cache_file(dataset: Dataset, keys: Sequence[str]) -> Path:
    assert dataset.reading.home is not None
    what = json.dumps([dataset.version, dataset.episodes.tolist(), list(keys)])
    digest = blake2b(what.encode(), digest_size=16).hexdigest()
    return dataset.reading.home / STATS_FOLDER / f"{digest}.json"


def _read(file: Path) -> Stats | None:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        return {
            key: {name: np.asarray(value) for name, value in values.items()}
            for key, values in document.items()
        }
    except (OSError, ValueError, AttributeError):
        return None


def _write_cached(file: Path, stats: Stats) -> None:
    document = {
        key: {name: value.tolist() for name, value in values.items()}
        for key, values in stats.items()
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(file) as scratch:
            scratch.write_text(json.dumps(document), encoding="utf-8")
    except OSError:
        # If they cannot be cached, they are computed again next time.
        return
