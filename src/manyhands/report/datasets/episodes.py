"""Episodes side by side: which ones, their curves, and their film strips."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from manyhands.data.quality.episode_quality import EpisodeQuality
from manyhands.data.quality.trajectories import motion_keys
from manyhands.report.charts import MAX_LINES, Chart, Line, Scale
from manyhands.report.datasets.dataset_files import DatasetFiles
from manyhands.report.datasets.features import number_name, spread_frames
from manyhands.report.datasets.film_strips import Strip
from manyhands.report.histograms import histogram
from manyhands.report.metrics import LARGEST_DRAWN, Series
from manyhands.report.text import clipped

MAX_WORST, MAX_SPREAD = 12, 12
MAX_SAMPLED = 2000  # Frames that the common range of curves is taken from
USUAL = (1, 99)  # Percent of values that the curves of all episodes have room for


@dataclass(frozen=True)
class ShownEpisodes:
    """Numbers of episodes in two groups, and how many there are in all."""

    worst: Sequence[int]
    spread: Sequence[int]
    total: int

    @property
    def all(self) -> list[int]:
        """Every shown episode."""
        return [*self.worst, *self.spread]


def shown_episodes(dataset: DatasetFiles) -> ShownEpisodes:
    """The worst episodes, then others spread evenly over the dataset; all of a small one."""
    lengths = dataset.meta.episodes.lengths
    present = [each for each in range(len(lengths)) if lengths[each]]
    found = [each for each in dataset.judged.values() if each.findings and each.num_frames]
    worst = [each.episode for each in sorted(found, key=_badness)][:MAX_WORST]
    # What cannot be read completely may still have some images.
    worst = [*sorted({*dataset.bad_episodes} & {*present}), *worst][:MAX_WORST]
    others = [each for each in present if each not in worst]
    num_spread = min(len(others), MAX_WORST + MAX_SPREAD - len(worst))
    places = np.linspace(0, len(others) - 1, num_spread).round().astype(int)
    return ShownEpisodes(worst, [others[place] for place in places], len(lengths))


def _badness(episode: EpisodeQuality) -> tuple[int, int, float]:
    """A smaller value is worse."""
    num_excluding = sum(finding.is_worth_excluding for finding in episode.findings)
    return -num_excluding, -len(episode.findings), -(episode.jerk or 0.0)


def length_charts(seconds: np.ndarray) -> list[Chart]:
    """How long episodes are, and how that changes from the first to the last."""
    spread = histogram("Length of episodes", seconds, "seconds", "episodes")
    if spread is None or len(seconds) == 1:
        return [spread] if spread else []
    series = Series(np.arange(len(seconds), dtype=np.float64), seconds)
    scale = Scale(kind="s", from_zero=True, along="episode")
    return [
        spread,
        Chart(title="Length by episode", lines=[Line(name="length", series=series)], scale=scale),
    ]


@dataclass(frozen=True)
class Card:
    """One episode on the page."""

    episode: int
    facts: str
    task: str
    findings: Sequence[tuple[bool, str]]  # Whether it is worth excluding, and the finding
    strips: Sequence[Strip]
    charts: Sequence[Chart]


def cards(
    dataset: DatasetFiles, episodes: Sequence[int], strips: Mapping[int, Sequence[Strip]]
) -> list[Card]:
    """The cards of episodes."""
    ranges = common_ranges(dataset)
    return [_card(dataset, each, strips.get(each, ()), ranges) for each in episodes]


Ranges = Mapping[str, tuple[float, ...]]


def common_ranges(dataset: DatasetFiles) -> Ranges:
    """By feature, the usual values, so that curves of episodes have the same scale."""
    if dataset.numbers is None:
        return {}
    frames, found = spread_frames(dataset.numbers, MAX_SAMPLED), {}
    for key in motion_keys(dataset.numbers.features):
        values = dataset.numbers.column_values(key, frames).astype(np.float64)
        known = values[np.abs(values) < LARGEST_DRAWN]
        if len(known):
            found[key] = tuple(np.percentile(known, USUAL).tolist())
    return found


def _card(dataset: DatasetFiles, episode: int, strips: Sequence[Strip], ranges: Ranges) -> Card:
    table, quality = dataset.meta.episodes, dataset.judged.get(episode)
    length = int(table.lengths[episode])
    findings = [
        (each.is_worth_excluding, clipped(f"{each.fault}: {each.message}", 300))
        for each in (quality.findings if quality else ())
    ]
    if episode in dataset.bad_episodes:
        findings = [(True, "damaged: see the check"), *findings]
    return Card(
        episode=episode,
        facts=f"{length / dataset.meta.info.fps:.1f} s, {length:,} frames",
        task=clipped(", ".join(table.tasks[episode]), 200),
        findings=findings,
        strips=strips,
        charts=_curves(dataset, episode, ranges),
    )


def _curves(dataset: DatasetFiles, episode: int, ranges: Ranges) -> list[Chart]:
    numbers = dataset.numbers
    if numbers is None or episode not in numbers.episodes:
        return []
    frames = np.arange(*numbers.frame_bounds[np.searchsorted(numbers.episodes, episode)])
    # Milliseconds are as fine as a reader can point.
    times, charts = (np.arange(len(frames)) / numbers.fps).round(3), []
    for key in motion_keys(numbers.features):
        values = numbers.column_values(key, frames).astype(np.float64).reshape(len(frames), -1)
        values[~(np.abs(values) < LARGEST_DRAWN)] = np.nan
        lines = [
            Line(
                name=number_name(key, place, numbers.features[key]).removeprefix(key).strip("[]"),
                series=Series(times, values[:, place]),
                color=place,
            )
            for place in range(min(MAX_LINES, values.shape[1]))
        ]
        more = values.shape[1] - len(lines)
        if any(np.isfinite(line.series.values).any() for line in lines):
            scale = Scale(along="seconds", is_dotted=len(frames) == 1, covers=ranges.get(key, ()))
            note = f"{more} more are not shown." if more else ""
            charts.append(Chart(title=clipped(key, 80), lines=lines, scale=scale, note=note))
    return charts
