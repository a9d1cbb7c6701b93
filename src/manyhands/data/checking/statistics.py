"""Check the dataset's statistics: present, valid, and consistent with its values."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from manyhands.data.checking.finding import Check, Finding, Severity
from manyhands.data.episodes import Source
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.info import Feature
from manyhands.types import Stats


@dataclass(frozen=True)
class Summary:
    """Numbers of one feature; the arrays have the shape of one value."""

    num_frames: int
    low: np.ndarray
    high: np.ndarray
    total: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """The average value."""
        mean: np.ndarray = self.total / self.num_frames
        return mean

    def folded(self, shape: tuple[int, ...]) -> "Summary | None":
        """The same in the shape of a statistic, with fewer leading axes; None if it cannot be."""
        arrays = (self.low, self.high, self.total)
        if math.prod(shape) == self.low.size:
            return Summary(self.num_frames, *(each.reshape(shape) for each in arrays))
        if not self.low.ndim or shape != self.low.shape[-1:]:
            return None
        low, high, total = (each.reshape(-1, *shape) for each in arrays)
        return Summary(self.num_frames, low.min(axis=0), high.max(axis=0), total.mean(axis=0))

    @np.errstate(invalid="ignore", over="ignore")
    def joined(self, other: "Summary") -> "Summary":
        """The summary of both."""
        return Summary(
            self.num_frames + other.num_frames,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.total + other.total,
        )


Summaries = dict[str, Summary]  # By feature


# Values that are not finite are findings; NumPy would only warn of them, without a name.
@np.errstate(invalid="ignore", over="ignore")
def summarize(values: np.ndarray) -> Summary:
    """The summary of values (frames, ...), of which there must be some."""
    exact = values.astype(np.float64)
    return Summary(len(exact), exact.min(axis=0), exact.max(axis=0), exact.sum(axis=0))


def joined(parts: Mapping[str, Summary], others: Mapping[str, Summary]) -> Summaries:
    """Merge the summaries of two sets of files."""
    both = parts.keys() & others.keys()
    return {**parts, **others} | {key: parts[key].joined(others[key]) for key in both}


_RANGE_TOLERANCE = 1e-3
_ROUNDING = 1e-5
_VISIBLE_RANGE = 1e-4  # A standard deviation of zero is a fault if values differ by more


def check_statistics(source: Source, keys: Collection[str], summaries: Summaries) -> list[Finding]:
    """Faults of the statistics; those of features without a summary are not compared."""
    described = {
        key: feature
        for key, feature in source.meta.info.features.items()
        if (feature.is_number or feature.is_camera) and key not in names.RESERVED_FEATURES
        if key in keys
    }
    files = (names.STATS_FILE, names.EPISODE_STATS_LINES_FILE)
    file = next((file for file in files if (source.root / file).is_file()), files[0])
    found = _faults(source.meta.stats, described, summaries)
    return [replace(finding, file=file) for finding in found]


def _faults(
    stats: Stats, described: Mapping[str, Feature], summaries: Summaries
) -> Iterator[Finding]:
    if not stats:
        yield _describe("no statistics; training computes them", "warning")
        return
    for key, feature in described.items():
        if not stats.get(key):
            yield _describe(f"no statistics of {key}; training computes them", "warning", key)
            continue
        measures = {name: value for name, value in stats[key].items() if name != "count"}
        faults = [*_nonsense(key, feature, measures)]
        yield from faults
        if not faults and key in summaries:
            yield from _differences(key, measures, summaries[key])


def check_constants(summaries: Summaries, features: Mapping[str, Feature]) -> Iterator[Finding]:
    """Numbers that are the same in every frame."""
    for key, summary in summaries.items():
        is_flag = np.dtype(features[key].dtype).kind == "b"
        if key in names.RESERVED_FEATURES or is_flag or summary.num_frames < 2:
            continue
        constant = np.flatnonzero(np.atleast_1d(summary.low == summary.high))
        if constant.size:
            shown = ", ".join(map(str, constant[:8]))
            places = f"index {shown}" if constant.size <= 8 else f"indices {shown} and others"
            where = "" if constant.size == summary.low.size else f" at {places}"
            message = f"{key} is constant{where}"
            yield Finding(Check.NUMBERS, "warning", message, None, "data", key)


def _nonsense(key: str, feature: Feature, measures: Mapping[str, np.ndarray]) -> Iterator[Finding]:
    for name, value in measures.items():
        if not np.isfinite(value).all():
            yield _describe(f"{name} of {key} is not finite", "bad", key)
        elif not _fits(value, feature):
            yield _describe(f"{name} of {key} has shape {list(value.shape)}", "bad", key)
        elif name == "std" and (value < 0).any():
            yield _describe(f"{name} of {key} is negative", "bad", key)
    ordered = [measures[name] for name in ("min", "mean", "max") if name in measures]
    for low, high in pairwise(ordered):
        if low.shape == high.shape and (low - high > _ROUNDING * (1 + np.abs(high))).any():
            yield _describe(f"min, mean and max of {key} are not in order", "warning", key)


def _fits(value: np.ndarray, feature: Feature) -> bool:
    """Whether a statistic can be spread over the values of its feature."""
    shape = feature.channel_first_shape or (1,)
    is_by_channel = feature.is_camera and value.ndim == 1
    try:
        spread = np.broadcast_shapes(value.shape + (1, 1) * is_by_channel, shape)
    except ValueError:
        return False
    return spread == shape


def _differences(
    key: str, measures: Mapping[str, np.ndarray], summary: Summary
) -> Iterator[Finding]:
    for name, stored in measures.items():
        seen = summary.folded(stored.shape)
        if seen is None or not np.isfinite(seen.total).all():
            continue
        if name == "std" and ((stored == 0) & (seen.high - seen.low > _VISIBLE_RANGE)).any():
            # Dividing by it makes the values huge.
            yield _describe(f"std of {key} is 0, but its values differ", "bad", key)
        real = {"min": seen.low, "max": seen.high, "mean": seen.mean}.get(name, stored)
        largest = np.maximum(np.abs(seen.low), np.abs(seen.high))
        allowed = _RANGE_TOLERANCE * (seen.high - seen.low) + _ROUNDING * largest
        off = np.flatnonzero(np.abs(stored - real) > allowed)
        if off.size:
            pair = f"{stored.flat[off[0]]:.6g}, but its values give {real.flat[off[0]]:.6g}"
            yield _describe(f"{name} of {key} is {pair}", "warning", key)


def _describe(message: str, severity: Severity, key: str | None = None) -> Finding:
    return Finding(Check.STATISTICS, severity, message, None, None, key)
