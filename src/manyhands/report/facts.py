"""The content of `run.json` as groups of labeled facts, and the summary of a run."""

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from statistics import median_low
from typing import Any

from manyhands.config.policies.registry import policy_title
from manyhands.report.axes import short
from manyhands.report.metrics import LARGEST_DRAWN, Series, is_number
from manyhands.report.tables import Column, Table, TableRow
from manyhands.report.text import clipped
from manyhands.units import count, duration, num_bytes

SHOWN_ELSEWHERE = ("command", "ending", "config", "diagnoses")
MAX_GROUPS = 20
MAX_FACTS = 40
LONGEST_FACT = 300
LONGEST_COMMAND = 20_000
UNIT = re.compile(r"(_bytes|_share|(?<!_per)_s)$")


@dataclass(frozen=True)
class FactGroup:
    """Facts that belong together."""

    title: str
    facts: list[tuple[str, str]]


def fact_groups(run: Mapping[str, Any]) -> list[FactGroup]:
    """Single values first, then one group per nested dictionary."""
    known = {key: value for key, value in run.items() if key not in SHOWN_ELSEWHERE}
    nested = {key: value for key, value in known.items() if isinstance(value, dict)}
    single = {
        key: value for key, value in known.items() if key not in nested and not _is_rows(value)
    }
    groups = [("Run", single), *((_words(key).capitalize(), nested[key]) for key in nested)]
    return [
        FactGroup(clipped(title, 80), list(_facts(values))[:MAX_FACTS])
        for title, values in groups[:MAX_GROUPS]
        if values
    ]


def fact_tables(run: Mapping[str, Any]) -> list[Table]:
    """One table per list of dictionaries, such as the ranks."""
    known = {key: value for key, value in run.items() if key not in SHOWN_ELSEWHERE}
    return [_table(key, value) for key, value in known.items() if _is_rows(value)][:MAX_GROUPS]


def command_line(run: Mapping[str, Any]) -> str:
    """The command as a shell would take it, one flag per line; empty if it is unknown."""
    command = run.get("command") or ""
    if not isinstance(command, list):
        return clipped(command, LONGEST_COMMAND)
    words = [shlex.quote(str(word)) for word in command]
    text = "".join(
        word if index == 0 else f" \\\n    {word}" if "--" in word[:3] else f" {word}"
        for index, word in enumerate(words)
    )
    return clipped(text, LONGEST_COMMAND)


def fact(key: str, value: Any) -> str:
    """A value as people read it, by the unit its name ends in."""
    match value:
        case None | [] | "":
            return "–"
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return _number(key, value)
        case list():
            texts = [fact(key, item) for item in _counted(value[:MAX_FACTS])]
            return clipped(", ".join(texts), LONGEST_FACT)
        case dict():
            return ", ".join(f"{name} {text}" for name, text in _facts(value))
    return clipped(value, LONGEST_FACT)


def _number(key: str, value: float) -> str:
    if not abs(value) < math.inf:
        return str(value)
    if key.endswith("_bytes"):
        return num_bytes(value)
    if key.endswith("_share"):
        return f"{value:.1%}"
    if key.endswith("_s") and not key.endswith("_per_s"):
        return duration(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return f"{value:.6g}"


def _counted(items: list[Any]) -> list[Any]:
    """Names that repeat, each once with its count; anything else as it is."""
    if not all(isinstance(item, str) for item in items) or len(set(items)) == len(items):
        return items
    return [f"{times} × {name}" for name, times in Counter(items).items()]


def _facts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Labels and texts; what is nested deeper carries its parent's name."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from ((f"{_words(key)} {label}", text) for label, text in _facts(value))
        else:
            yield clipped(_words(key), 80), fact(key, value)


def _table(key: str, rows: list[dict[str, Any]]) -> Table:
    rows = rows[:MAX_FACTS]
    names = [*dict.fromkeys(name for row in rows for name in row)][:MAX_FACTS]
    cells = [[fact(name, row[name]) if name in row else "" for name in names] for row in rows]
    return Table(
        title=clipped(_words(key).capitalize(), 80),
        columns=[Column(clipped(_words(name), 80)) for name in names],
        rows=[TableRow(texts) for texts in cells],
    )


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _words(key: str) -> str:
    """A key as a label, without its unit and `num_`, which the value shows."""
    return UNIT.sub("", key).removeprefix("num_").replace("_", " ")


@dataclass(frozen=True)
class Tile:
    """One large number, its label, and a note."""

    label: str
    value: str
    note: str = ""


def run_title(run: Mapping[str, Any], fallback: str) -> str:
    """Policy and dataset, such as "ACT on pusht", or the fallback when neither is known."""
    policy = str(_section(run, "policy").get("type") or "")
    dataset = _section(run, "dataset")
    data = PurePath(str(dataset.get("repo_id") or dataset.get("root") or "")).name
    known = [policy_title(policy), data]
    return clipped(" on ".join(filter(None, known)) or fallback, 200)


def key_numbers(run: Mapping[str, Any], metrics: Mapping[str, Series]) -> list[Tile]:
    """The summary numbers of a run, as far as they are known."""
    drawable = {name: series.drawable() for name, series in metrics.items()}
    known = {name: series for name, series in drawable.items() if len(series)}
    # The loss of a run that diverged is NaN or Inf, whatever it was before.
    tiles = [
        _latest(metrics, "loss", "loss"),
        _latest(metrics, "held_out_loss", "held-out loss"),
        _success(known),
        _steps(run, metrics),
        _time(run),
        _speed(known),
        _batch(run),
        _parameters(run),
    ]
    return [tile for tile in tiles if tile]


def _latest(metrics: Mapping[str, Series], name: str, label: str) -> Tile | None:
    if name not in metrics:
        return None
    values = metrics[name].values
    return Tile(label, short(values[-1]), f"first {short(values[0])}" if len(values) > 1 else "")


def _success(metrics: Mapping[str, Series]) -> Tile | None:
    bounds = [f"eval_success{ending}" for ending in ("", "_low", "_high")]
    if bounds[0] not in metrics:
        return None
    values = [metrics[name].values[-1] for name in bounds if name in metrics]
    interval = f"{values[1]:.0%} to {values[2]:.0%}" if len(values) == len(bounds) else ""
    return Tile("success", f"{values[0]:.0%}", interval)


def _steps(run: Mapping[str, Any], metrics: Mapping[str, Series]) -> Tile | None:
    if not metrics:
        return None
    last = max(series.steps[-1] for series in metrics.values())
    total = _amount(run, "budget", "steps")
    return Tile("steps", f"{last:,.0f}", f"of {total:,.0f}" if total else "")


def _time(run: Mapping[str, Any]) -> Tile | None:
    """The time of all processes of a run."""
    wall_s = _amount({"run": run}, "run", "wall_s")
    if not wall_s:
        return None
    # A run writes its time every few minutes, and at its end.
    return Tile("time", duration(wall_s), "" if run.get("ending") else "at least")


def _speed(metrics: Mapping[str, Series]) -> Tile | None:
    if "samples_per_s" not in metrics:
        return None
    note = "median"
    if "data_wait_share" in metrics:
        note += f"; {median_low(metrics['data_wait_share'].values.tolist()):.0%} waiting for data"
    speed = median_low(metrics["samples_per_s"].values.tolist())
    return Tile("samples/s", f"{speed:,.4g}" if speed < 1e4 else count(speed), note)


def _batch(run: Mapping[str, Any]) -> Tile | None:
    effective = _amount(run, "batch", "effective")
    if not effective:
        return None
    factors = [_amount(run, "batch", key) for key in ("per_process", "processes", "accumulation")]
    product = " × ".join(f"{factor:g}" for factor in factors if factor)
    # What does not divide is no product.
    is_product = all(factors) and _section(run, "batch").get("is_even", True)
    return Tile("samples/step", count(effective), f"= {product}" if is_product else "")


def _parameters(run: Mapping[str, Any]) -> Tile | None:
    total = _amount(run, "policy", "num_parameters")
    trained = _amount(run, "policy", "num_trainable") or _amount(run, "policy", "num_trained")
    if not total:
        return None
    is_partly_frozen = trained and trained != total
    return Tile("parameters", count(total), f"{count(trained)} trained" if is_partly_frozen else "")


def _section(run: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = run.get(key)
    return section if isinstance(section, dict) else {}


def _amount(run: Mapping[str, Any], section: str, key: str) -> float:
    """A positive number out of a section; zero when there is none."""
    value = _section(run, section).get(key)
    return float(value) if is_number(value) and 0 < value < LARGEST_DRAWN else 0.0
