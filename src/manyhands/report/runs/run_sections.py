"""The sections of a page about runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from manyhands.report.charts import Chart, points_per_line
from manyhands.report.drawing import Drawing
from manyhands.report.facts import (
    LONGEST_COMMAND,
    command_line,
    fact_groups,
    fact_tables,
)
from manyhands.report.media import Allowance, image_uri
from manyhands.report.page import Section, fragment, section
from manyhands.report.runs.configuration import compared_tables, configuration_tables, reproduction
from manyhands.report.runs.diagnosis import findings
from manyhands.report.runs.evaluations import result_rows
from manyhands.report.runs.open_loop import (
    OpenLoopResult,
    charts_of_all,
    error_charts,
    error_table,
    trace_charts,
)
from manyhands.report.runs.panels import (
    LEARNING,
    MACHINE,
    SPEED,
    SUCCESS,
    compared_charts,
    metric_charts,
    omitted,
)
from manyhands.report.runs.ranks import rank_table, read_ranks
from manyhands.report.runs.rollouts import filmed_episodes, in_turn, slides
from manyhands.report.runs.run_files import RunFiles
from manyhands.report.runs.summary import summary_table, summary_tiles
from manyhands.report.runs.training_frames import TrainingFrames

ORDER = (
    *("top", "summary", "diagnosis", "learning", "success", "rollouts", "open-loop", "speed"),
    *("machine", "frames", "configuration", "commands", "environment"),
)
"""Anchors of all sections, as they follow each other."""


@dataclass(frozen=True, kw_only=True)
class ReportExtras:
    """Content of a report beyond the run's own files."""

    title: str = ""
    lead: str = ""
    next_commands: Sequence[str] = ()


NOTHING_MORE = ReportExtras()


def header(runs: Sequence[RunFiles], title: str, extras: ReportExtras) -> Section:
    """What stands above all sections."""
    is_one = len(runs) == 1
    content = {
        "title": title,
        "lead": extras.lead,
        "runs": [
            {
                "label": "" if is_one else f"{run.label}: ",
                "ending": run.ending,
                "mood": run.mood,
                "started_at": run.started_at if is_one else "",
            }
            for run in runs
        ],
        "keys": runs[0].keys if is_one else [],
        "tiles": summary_tiles(runs[0]) if is_one else [],
    }
    return section("top", "", "header", content)


def text_sections(runs: Sequence[RunFiles], extras: ReportExtras) -> Iterator[Section]:
    """Every section without images and videos, in the order of the page."""
    if len(runs) == 1:
        charts = metric_charts(runs[0].metrics)
    else:
        charts = compared_charts([(run.label, run.metrics) for run in runs])
    open_loop = [each for run in runs for each in run.open_loop]
    traces = charts_of_all(open_loop, trace_charts)
    num_points = points_per_line([*traces, *(each for group in charts.values() for each in group)])
    drawing = Drawing(num_points)
    if len(runs) > 1:
        yield section("summary", "Summary", "tables", {"tables": [summary_table(runs)]})
    yield _diagnosis(runs)
    yield _learning(runs, charts[LEARNING], drawing)
    yield from _success(runs, charts[SUCCESS], drawing)
    yield from _open_loop(open_loop, traces, drawing)
    yield from _speed(runs, charts[SPEED], drawing)
    if charts[MACHINE]:
        yield Section("machine", "Memory and hardware", drawing.html(charts[MACHINE]))
    yield from _configuration(runs)
    yield from _commands(runs, extras)
    yield from _environment(runs)


def _diagnosis(runs: Sequence[RunFiles]) -> Section:
    found = [
        {
            "title": "" if len(runs) == 1 else run.label,
            "findings": findings(run.run, run.rows, run.rank_rows),
        }
        for run in runs
    ]
    return section("diagnosis", "Diagnosis", "diagnosis", {"runs": found})


def _learning(runs: Sequence[RunFiles], charts: Sequence[Chart], drawing: Drawing) -> Section:
    if not charts:
        return section("learning", "Training", "notes", {"notes": ["No metrics were logged."]})
    note = omitted(runs[0].metrics) if len(runs) == 1 else ""
    return Section("learning", "Training", drawing.html(charts, note, has_controls=True))


def _success(
    runs: Sequence[RunFiles], charts: Sequence[Chart], drawing: Drawing
) -> Iterator[Section]:
    rows = [row for run in runs for row in result_rows(run.evaluations)]
    pieces = [fragment("results", {"results": rows})] if rows else []
    pieces += [drawing.html(charts)] if charts else []
    if pieces:
        yield Section("success", "Success in simulation", "".join(pieces))


def _open_loop(
    results: Sequence[OpenLoopResult], traces: Sequence[Chart], drawing: Drawing
) -> Iterator[Section]:
    if not results:
        return
    tables = fragment("tables", {"tables": [error_table(each) for each in results]})
    charts = charts_of_all(results, error_charts)
    note = "Recorded episodes, and the actions that the policy predicts at each of their chunks."
    html = tables + drawing.html([*charts, *traces], note if traces else "")
    yield Section("open-loop", "Predicted and recorded actions", html)


def _speed(
    runs: Sequence[RunFiles], charts: Sequence[Chart], drawing: Drawing
) -> Iterator[Section]:
    pieces = [drawing.html(charts)] if charts else []
    for run in runs:
        ranks = read_ranks(run.rank_rows)
        if ranks:
            label = "" if len(runs) == 1 else run.label
            pieces.append(fragment("tables", {"tables": [rank_table(ranks, label)]}))
    if pieces:
        yield Section("speed", "Speed", "".join(pieces))


def _configuration(runs: Sequence[RunFiles]) -> Iterator[Section]:
    tables = []
    if len(runs) > 1:
        tables += compared_tables([(each.label, each.run) for each in runs])
    else:
        tables += configuration_tables(runs[0].run)
    if tables:
        yield section("configuration", "Configuration", "flags", {"tables": tables})


def _commands(runs: Sequence[RunFiles], extras: ReportExtras) -> Iterator[Section]:
    commands = []
    if extras.next_commands:
        commands.append({"title": "Next steps", "text": "\n".join(extras.next_commands)})
    for run in runs:
        of = "" if len(runs) == 1 else f": {run.label}"
        again, typed = reproduction(run.run), command_line(run.run)
        if 0 < len(again) <= LONGEST_COMMAND:
            commands.append({"title": f"Reproduce{of}", "text": again})
        if len(typed.split()) > 2:
            commands.append({"title": f"Started with{of}", "text": typed})
    if commands:
        yield section("commands", "Commands", "commands", {"commands": commands})


def _environment(runs: Sequence[RunFiles]) -> Iterator[Section]:
    found = [
        {
            "title": "" if len(runs) == 1 else run.label,
            "groups": fact_groups(run.run),
            "tables": fact_tables(run.run),
        }
        for run in runs
        if run.run
    ]
    if found:
        yield section("environment", "Environment", "facts", {"runs": found})


def media_sections(
    runs: Sequence[RunFiles], frames: TrainingFrames | None, allowance: Allowance
) -> Iterator[Section]:
    """Rollouts and training frames, as far as an allowance goes."""
    samples = [*_samples(frames, allowance)] if frames else []
    filmed = in_turn([filmed_episodes(run.evaluations) for run in runs])
    if filmed:
        shown, note = slides(filmed, allowance)
        yield section("rollouts", "Rollouts", "rollouts", {"slides": shown, "note": note})
    yield from samples


def _samples(frames: TrainingFrames, allowance: Allowance) -> Iterator[Section]:
    cameras = []
    for name, seen in frames.cameras.items():
        images = [{"caption": each.caption, "image": image_uri(each.pixels)} for each in seen]
        fitting = [each for each in images if allowance.takes(each["image"])]
        cameras.append({"name": name, "frames": fitting})
    content = {"cameras": cameras, "note": frames.note}
    yield section("frames", "Training frames", "samples", content)
