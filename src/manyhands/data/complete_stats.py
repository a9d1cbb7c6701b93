"""Statistics of all features that are read: recorded, else computed once and cached."""

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from manyhands.atomic import whole_file
from manyhands.data.dataset import Dataset
from manyhands.data.stats import (
    aggregate_stats,
    number_stats,
    picture_stats,
    sampled_frames,
    thinned,
)
from manyhands.lerobot_format.episode_stats import read_episode_stats
from manyhands.types import Stats

STATS_FOLDER = "stats"

Progress = Callable[[int, int], None]
"""Called with the number of episodes done and the total."""


def complete_stats(
    dataset: Dataset, of_chosen_episodes: bool, on_progress: Progress = lambda done, total: None
) -> Stats:
    """Statistics by delivered name of all numbers and cameras that are read.

    They are those of the complete dataset, or of the chosen episodes alone.
    """
    known = _chosen_stats(dataset) if of_chosen_episodes else dataset.stats
    lacking = [
        key
        for key, feature in dataset.features.items()
        if (feature.is_number or feature.is_camera) and key not in known
    ]
    if not lacking:
        return known
    file = _kept_file(dataset, lacking)
    computed = _read(file)
    if computed is None:
        computed = compute_stats(dataset, lacking, on_progress)
        _keep(file, computed)
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
    """Recorded statistics of the chosen episodes."""
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
        thinned(dataset.column_values(key, frame[None])[0].transpose(1, 2, 0)) for frame in frames
    ]
    return number_stats_of_depth(pictures) if feature.is_depth else picture_stats(pictures)


def number_stats_of_depth(pictures: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Statistics of distances, which are not scaled to 0..1 as colors are."""
    values = number_stats(np.concatenate([picture.reshape(-1, 1) for picture in pictures]))
    shaped = {name: value.reshape(-1, 1, 1) for name, value in values.items() if name != "count"}
    return shaped | {"count": np.array([len(pictures)])}


def _kept_file(dataset: Dataset, keys: Sequence[str]) -> Path:
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


def _keep(file: Path, stats: Stats) -> None:
    document = {
        key: {name: value.tolist() for name, value in values.items()}
        for key, values in stats.items()
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file) as scratch:
            scratch.write_text(json.dumps(document), encoding="utf-8")
    except OSError:
        # If they cannot be cached, they are computed again next time.
        return
