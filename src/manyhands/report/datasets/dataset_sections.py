"""The sections of a page about a dataset."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from manyhands import units
from manyhands.data.checking.finding import CHECKS, counted
from manyhands.data.checking.verdict import findings_text, verdict_line
from manyhands.report.charts import MOST_POINTS, draw, points_per_line
from manyhands.report.datasets.cameras import camera_table
from manyhands.report.datasets.dataset_files import DatasetFiles
from manyhands.report.datasets.episode_measures import (
    fault_table,
    finding_table,
    measure_charts,
    quality_note,
)
from manyhands.report.datasets.episodes import Card, ShownEpisodes, length_charts
from manyhands.report.datasets.features import statistics_table, value_histograms
from manyhands.report.drawing import Drawing
from manyhands.report.facts import Tile
from manyhands.report.histograms import MAX_BARS
from manyhands.report.page import Section, fragment, section
from manyhands.report.tables import Column, Table, TableRow
from manyhands.report.text import clipped

ORDER = ("top", "check", "quality", "episodes", "tasks", "cameras", "statistics", "commands")
"""Anchors of all sections, as they follow each other."""
MAX_TASKS = 50
SMALL = Drawing(MAX_BARS, is_small=True)


def dataset_header(dataset: DatasetFiles) -> Section:
    """What stands above all sections."""
    info, check = dataset.meta.info, dataset.check
    ending, mood = "not checked: that would take too long", "neutral"
    if check is not None:
        ending, mood = verdict_line(check), "good" if check.is_usable else "bad"
    content = {
        "title": dataset.label,
        "lead": "",
        "runs": [{"label": "", "ending": ending, "mood": mood, "started_at": ""}],
        "keys": [
            ("folder", str(dataset.root.resolve())),
            ("format", info.codebase_version),
            *([("robot", clipped(info.robot_type, 200))] if info.robot_type else []),
        ],
        "tiles": [*_tiles(dataset)],
    }
    return section("top", "", "header", content)


def _tiles(dataset: DatasetFiles) -> Iterator[Tile]:
    info, quality = dataset.meta.info, dataset.quality
    num_cameras = sum(feature.is_camera for feature in info.features.values())
    frames = f"{counted(info.total_frames, 'frame')} at {info.fps:g} per second"
    yield Tile("episodes", units.count(info.total_episodes), counted(info.total_tasks, "task"))
    yield Tile("duration", units.duration(info.total_frames / info.fps), frames)
    yield Tile("cameras", str(num_cameras), counted(len(info.features), "feature"))
    if quality is not None:
        found = [each.episode for each in quality.episodes if each.findings]
        number = len({*found, *dataset.bad_episodes})
        note = f"{len(dataset.excluded)} worth excluding"
        yield Tile("episodes with findings", str(number), note)


def dataset_sections(dataset: DatasetFiles) -> Iterator[Section]:
    """Every section without images."""
    yield _check(dataset)
    yield _quality(dataset)
    yield _tasks(dataset)
    cameras = camera_table(dataset.root, dataset.meta)
    if cameras is not None:
        yield section("cameras", "Cameras", "tables", {"tables": [cameras]})
    yield _statistics(dataset)
    yield section("commands", "Commands", "commands", {"commands": [*_commands(dataset)]})


def _check(dataset: DatasetFiles) -> Section:
    check = dataset.check
    if check is None:
        note = "The check was stopped because it takes long. Run the command of the last section."
        return section("check", "Check", "notes", {"notes": [note]})
    titles = ("check", "checked", "state", "found")[: None if check.findings else -1]
    columns = [Column(title) for title in titles]
    rows = []
    for name in CHECKS:
        state, looked_at = check.state_of(name), check.looked_at.get(name, "nothing")
        cells = [name, looked_at, state, clipped(findings_text(check, name), 1000)]
        rows.append(TableRow(cells[: len(columns)], state == "bad"))
    note = "Of each video, the first and last frames. manyhands doctor decodes every image."
    table = Table(columns=columns, rows=rows, note=note if check.thoroughness == "quick" else "")
    return section("check", "Check", "tables", {"tables": [table]})


def _quality(dataset: DatasetFiles) -> Section:
    quality, title = dataset.quality, "Quality of episodes"
    if quality is None:
        notes = [f"Not judged: {clipped(dataset.fault, 500)}"]
        return section("quality", title, "notes", {"notes": notes})
    flag = dataset.exclude_flag
    exclude = f"Exclude {counted(len(dataset.excluded), 'episode')} when training"
    tables = [fault_table(quality), finding_table(quality)]
    pieces = [
        fragment("commands", {"commands": [{"title": exclude, "text": flag}] if flag else []}),
        fragment("tables", {"tables": [table for table in tables if table.rows]}),
        SMALL.html(measure_charts(quality), quality_note(quality)),
    ]
    return Section("quality", title, "".join(pieces))


def _tasks(dataset: DatasetFiles) -> Section:
    table = dataset.meta.episodes
    counts = Counter(text for own in table.tasks for text in dict.fromkeys(own))
    rows = [
        TableRow([clipped(text, 300), f"{number:,}", f"{number / len(table):.0%}"])
        for text, number in counts.most_common(MAX_TASKS)
    ]
    more = len(counts) - MAX_TASKS
    tasks = Table(
        columns=[Column("task"), Column("episodes", True), Column("share", True)],
        rows=rows,
        note=f"{counted(more, 'more task')}." if more > 0 else "",
    )
    html = Drawing(MOST_POINTS).html(length_charts(table.lengths / dataset.meta.info.fps))
    return Section("tasks", "Lengths and tasks", html + fragment("tables", {"tables": [tasks]}))


def _statistics(dataset: DatasetFiles) -> Section:
    charts, note = value_histograms(dataset)
    html = fragment("tables", {"tables": [statistics_table(dataset)]})
    return Section("statistics", "Statistics", html + SMALL.html(charts, note))


def _commands(dataset: DatasetFiles) -> Iterator[Mapping[str, str]]:
    root = shlex.quote(str(dataset.root.resolve()))
    yield {
        "title": "Check every image",
        "text": f"manyhands doctor --dataset.root={root} --quality",
    }
    words = [f"manyhands train --dataset.root={root}", "--policy.type=act"]
    flag = dataset.exclude_flag
    words += [shlex.quote(flag)] if flag else []
    yield {"title": "Train", "text": " \\\n    ".join(words)}


def episodes_section(shown: ShownEpisodes, cards: Sequence[Card], note: str) -> Section:
    """Episodes side by side, the worst first."""
    num_points = points_per_line([chart for card in cards for chart in card.charts])
    drawn = [
        vars(card) | {"charts": [draw(chart, num_points) for chart in card.charts]}
        for card in cards
    ]
    num_worst = len(shown.worst)
    spread = "" if num_worst or len(drawn) == shown.total else ", spread evenly"
    others = "Others" if len(drawn) == shown.total else "Others, spread evenly"
    groups = {"Worst quality first": drawn[:num_worst], others: drawn[num_worst:]}
    content = {
        "groups": [
            {"title": title if num_worst else "", "cards": own}
            for title, own in groups.items()
            if own
        ],
        "note": f"{len(drawn)} of {counted(shown.total, 'episode')} shown{spread}. {note}",
    }
    return section("episodes", "Episodes", "episodes", content)
