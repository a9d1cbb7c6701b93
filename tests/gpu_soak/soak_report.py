"""Results of the soak test: one line of JSON each, collected from all processes of pytest."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from run_report import cell
from soak_life import Result

FILE = "results.jsonl"
COLUMNS = (
    ("before", 8),
    ("during", 8),
    ("after", 8),
    ("resumed", 16),
    ("switch s", 10),
    ("trial s", 9),
    ("pause s", 9),
    ("full speed s", 14),
    ("GiB", 7),
    ("growth MiB", 16),
    ("steps", 8),
    ("loss", 9),
    ("total s", 9),
)


def add_result(folder: Path, result: Result) -> None:
    """Append a result; pytest processes may do so at the same time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(result)) + "\n")


def read_results(folder: Path) -> list[Result]:
    """The last result of every recipe."""
    file = folder / FILE
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    results = [Result(**json.loads(line)) for line in lines]
    return [*{result.recipe: result for result in results}.values()]


def table(results: Sequence[Result]) -> str:
    """The results for people."""
    head = f"{'recipe':22}" + "".join(f"{name:>{width}}" for name, width in COLUMNS)
    lines = ["Steps per second before, during and after compiling, and after each resume", head]
    lines[1] += "  outcome"
    for each in results:
        cells = zip(values(each), COLUMNS, strict=True)
        row = "".join(f"{value:>{width}}" for value, (_, width) in cells)
        lines.append(f"{each.recipe:22}{row}  {each.outcome}")
    for each in results:
        if each.samples_per_minute:
            rates = " ".join(format(rate, ".0f") for rate in each.samples_per_minute)
            lines.append(f"{each.recipe}: samples per second of every minute: {rates}")
    return "\n".join(lines)


def values(result: Result) -> list[str]:
    """The cells of a result, in the order of the columns."""
    speeds = [cell(each, ".1f") for each in (result.before, result.during, result.after)]
    times = [cell(each, ".0f") for each in (result.switched_s, result.trial_s)]
    return [
        *speeds,
        several(result.resumed, ".1f"),
        *times,
        cell(result.pause_s, ".1f"),
        several(result.full_speed_s, ".1f"),
        cell(result.gpu_gib, ".1f"),
        several(result.gpu_growth_mib, ".0f"),
        cell(result.last_step, "d"),
        cell(result.last_loss, ".3g"),
        cell(result.seconds, ".0f"),
    ]


def several(numbers: Sequence[float | None], form: str) -> str:
    """Some numbers in one cell."""
    return " ".join(cell(number, form) for number in numbers) or "-"
