"""The quality of episodes on a page: measures, findings, and what to exclude."""

import numpy as np

from manyhands.data.checking.finding import counted
from manyhands.data.quality.dataset_quality import DatasetQuality
from manyhands.data.quality.episode_quality import EpisodeQuality, Fault
from manyhands.report.charts import Chart
from manyhands.report.histograms import histogram
from manyhands.report.tables import Column, Table, TableRow
from manyhands.report.text import clipped

MAX_ROWS = 40
MAX_LISTED = 24  # Episodes of one fault by number
MEASURES = (
    ("Jerk", "jerk", "times the usual"),
    ("Roughest half second", "jerk_peak", "times the usual"),
    ("Idle frames", "idle_share", "fraction of the episode"),
    ("Longest idle stretch", "longest_idle_s", "seconds"),
    ("Speed at the end", "ending_speed", "times the usual"),
    ("Distance to the nearest episode", "nearest_distance", "ranges of the joints"),
)
"""Title, field and unit of what is measured of every episode."""


LOOKED_FOR = ", ".join(fault.value for fault in Fault)


def fault_table(quality: DatasetQuality) -> Table:
    """A row per kind of fault that was found, with the episodes that have it."""
    found = {fault: quality.with_fault(fault) for fault in Fault}
    rows = [
        TableRow([fault.value, _listed(episodes), str(len(episodes))])
        for fault, episodes in found.items()
        if episodes
    ]
    columns = [Column("fault"), Column("episodes"), Column("number", is_number=True)]
    return Table(columns=columns, rows=rows)


def _listed(episodes: list[int]) -> str:
    more = len(episodes) - MAX_LISTED
    shown = ", ".join(map(str, episodes[:MAX_LISTED]))
    return f"{shown} and {more} more" if more > 0 else shown


def finding_table(quality: DatasetQuality) -> Table:
    """A row per episode with findings, those worth excluding first."""
    found = sorted((each for each in quality.episodes if each.findings), key=_order)
    rows = [TableRow([*_cells(each)]) for each in found[:MAX_ROWS]]
    columns = [Column("episode", True), Column("length", True), Column("advice"), Column("found")]
    more = len(found) - MAX_ROWS
    note = f"{counted(more, 'more episode')} with findings." if more > 0 else ""
    return Table(title="Findings", columns=columns, rows=rows, note=note)


def _order(episode: EpisodeQuality) -> bool:
    return not episode.is_worth_excluding


def _cells(episode: EpisodeQuality) -> tuple[str, ...]:
    found = "; ".join(f"{finding.fault}: {finding.message}" for finding in episode.findings)
    advice = "exclude" if episode.is_worth_excluding else "look at it"
    return str(episode.episode), f"{episode.duration_s:.1f} s", advice, clipped(found, 500)


def measure_charts(quality: DatasetQuality) -> list[Chart]:
    """How the measures of all episodes are distributed."""
    charts = []
    for title, field, along in MEASURES:
        known = [getattr(each, field) for each in quality.episodes]
        values = np.array([value for value in known if value is not None], np.float64)
        charts.append(histogram(title, values, along, "episodes"))
    for camera in dict.fromkeys(each.camera for own in quality.episodes for each in own.cameras):
        seen = [each for own in quality.episodes for each in own.cameras if each.camera == camera]
        title = clipped(f"Brightness of {camera}", 100)
        brightness = np.array([each.brightness for each in seen])
        charts.append(histogram(title, brightness, "0 to 255", "episodes"))
    return [chart for chart in charts if chart is not None]


def quality_note(quality: DatasetQuality) -> str:
    """What was judged."""
    num_found = sum(bool(each.findings) for each in quality.episodes)
    judged = counted(len(quality.episodes), "episode")
    note = f"Judged {judged}, {num_found or 'none'} with findings. Looked for: {LOOKED_FOR}."
    if quality.is_complete:
        return note
    return f"{note} Not all cameras were judged: that would take too long."
