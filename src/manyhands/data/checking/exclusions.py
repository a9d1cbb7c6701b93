"""Consequences of a check for a run: frames, rows and episodes to skip."""

import numpy as np

from manyhands.data.checking.finding import CheckResult, Finding
from manyhands.data.dataset import Dataset
from manyhands.data.episodes import Source
from manyhands.errors import DatasetError

NO_OFFSET = np.zeros(1, np.int64)  # The window of a feature without one


def bad_frames(result: CheckResult) -> dict[str, np.ndarray]:
    """Unusable frames by feature, as ranges (n, 2); raises if no choice of frames helps."""
    ranges: dict[str, set[tuple[int, int]]] = {}
    for finding in _bad(result):
        if finding.frames is None:
            raise DatasetError(f"the dataset in {result.root} cannot be used: {finding.text}")
        for key in result.keys if finding.key is None else (finding.key,):
            ranges.setdefault(key, set()).add(finding.frames)
    return {key: np.array(sorted(own), np.int64) for key, own in ranges.items()}


def unusable_episodes(result: CheckResult, source: Source) -> np.ndarray:
    """Chosen episodes without a usable frame; a dataset can be opened only without them."""
    bounds = np.stack([source.meta.episodes.from_index, source.meta.episodes.to_index], axis=1)
    whole = {tuple(pair) for ranges in bad_frames(result).values() for pair in ranges.tolist()}
    chosen = source.selection.episodes.tolist()
    return np.array([each for each in chosen if tuple(bounds[each].tolist()) in whole], np.int64)


def bad_rows(result: CheckResult, dataset: Dataset) -> np.ndarray:
    """Rows of a dataset whose window of any feature it reads touches a bad frame, ascending."""
    is_bad = np.zeros(len(dataset), bool)
    for key, ranges in bad_frames(result).items():
        if key in dataset.reading.skip:
            continue
        offsets = dataset.windows.get(dataset.reading.delivered(key), NO_OFFSET)
        for rows, frames in zip(dataset.episode_bounds, dataset.frame_bounds, strict=True):
            shift = frames[0] - rows[0]
            touching = ranges[(ranges[:, 0] < frames[1]) & (ranges[:, 1] > frames[0])] - shift
            _mark(is_bad, rows, touching, offsets)
    return np.flatnonzero(is_bad)


def _bad(result: CheckResult) -> list[Finding]:
    return [finding for finding in result.findings if finding.severity == "bad"]


def _mark(is_bad: np.ndarray, bounds: np.ndarray, ranges: np.ndarray, offsets: np.ndarray) -> None:
    """Mark the rows of an episode from which some offset leads into a range of rows."""
    low, high = bounds
    for first, end in ranges:
        # At its ends an episode repeats its first and last frame without limit.
        firsts = np.full(len(offsets), low) if first <= low else first - offsets
        ends = np.full(len(offsets), high) if end >= high else end - offsets
        for begin, stop in zip(firsts.clip(low, high), ends.clip(low, high), strict=True):
            is_bad[begin:stop] = True
