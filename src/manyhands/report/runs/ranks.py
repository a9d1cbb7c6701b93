"""The ranks of a run: where they compute, how long they take, and which one is slow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median_low
from typing import Any

from manyhands.report.axes import Unit, short, unit_for
from manyhands.report.metrics import LARGEST_DRAWN, is_number
from manyhands.report.tables import Column, Table, TableRow
from manyhands.report.text import clipped

MAX_ROWS = 32
STRAGGLES = 1.2  # Times the usual busy time from which a rank is called a straggler
RANKS_FILE = "ranks.jsonl"
WAITING = "communication_s"
STEP = "step_s"
SHOWN = {
    STEP: "step",
    "data_s": "data",
    "copy_s": "copy",
    "forward_s": "forward",
    "backward_s": "backward",
    WAITING: "communication",
    "optimizer_s": "optimizer",
    "logging_s": "logging",
    "checkpoint_s": "checkpoint",
    "gpu_utilization": "GPU use",
    "gpu_memory_bytes": "GPU memory",
}
"""Measures of a rank, and the titles of their columns."""


@dataclass(frozen=True)
class Rank:
    """The measures of one rank."""

    number: int
    place: str
    measures: dict[str, float]
    busy_s: float | None
    """Seconds of a usual step in which it does not wait for other ranks."""


def read_ranks(rows: Sequence[Mapping[str, Any]]) -> list[Rank]:
    """The ranks in rows of `ranks.jsonl`, each with the means of what was measured."""
    by_rank: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        if is_number(row.get("rank")) and 0 <= row["rank"] < LARGEST_DRAWN:
            by_rank.setdefault(int(row["rank"]), []).append(row)
    return [_rank(number, own) for number, own in sorted(by_rank.items())]


def _rank(place: int, rows: Sequence[Mapping[str, Any]]) -> Rank:
    known = [_drawable(row) for row in rows]
    known = known[1:] or known  # The first row includes warm-up
    timed = [row for row in known if STEP in row]
    measures = {}
    for name in SHOWN:
        own = [row for row in known if name in row]
        # A row without a phase, such as one without a checkpoint, has zero of it.
        counted = timed if own and name.endswith("_s") else own
        if counted:
            measures[name] = fmean(row.get(name, 0.0) for row in counted)
    # One slow row makes no straggler.
    busy = [row[STEP] - row.get(WAITING, 0.0) for row in timed]
    where = ", ".join(str(rows[-1][name]) for name in ("host", "gpu") if rows[-1].get(name))
    return Rank(place, clipped(where, 80), measures, median_low(busy) if busy else None)


def _drawable(row: Mapping[str, Any]) -> dict[str, float]:
    """The measures of a row that are no nonsense."""
    numbers = {name: float(row[name]) for name in SHOWN if is_number(row.get(name))}
    return {name: value for name, value in numbers.items() if abs(value) < LARGEST_DRAWN}


def stragglers(ranks: Sequence[Rank]) -> list[Rank]:
    """Ranks that compute longer than the usual one, so that the others wait for them."""
    busy = [rank.busy_s for rank in ranks if rank.busy_s is not None]
    if len(busy) < 2:
        return []
    usual = median_low(busy)
    return [rank for rank in ranks if rank.busy_s is not None and rank.busy_s > STRAGGLES * usual]


def rank_table(ranks: Sequence[Rank], run: str = "") -> Table:
    """All ranks of a run, or the slowest of very many; stragglers are marked."""
    slow = stragglers(ranks)
    shown = sorted(ranks, key=lambda rank: -(rank.busy_s or 0))[:MAX_ROWS]
    shown = sorted(shown, key=lambda rank: rank.number)
    names = [name for name in SHOWN if any(name in rank.measures for rank in ranks)]
    units = {name: _unit(name, shown) for name in names}
    titles = [f"{SHOWN[name]} [{units[name].symbol}]" for name in names]
    columns = [Column("rank"), Column("where")]
    columns += [Column(title, is_number=True) for title in titles]
    rows = [
        TableRow(
            [str(rank.number), rank.place, *(_cell(rank, name, units[name]) for name in names)],
            is_marked=rank in slow,
        )
        for rank in shown
    ]
    note = _note(ranks, slow, len(shown))
    title = f"Ranks: {run}" if run else "Ranks"
    return Table(title=title, columns=columns, rows=rows, note=note)


def _unit(name: str, ranks: Sequence[Rank]) -> Unit:
    largest = max((rank.measures.get(name, 0.0) for rank in ranks), default=0.0)
    kinds = {"gpu_utilization": "share", "gpu_memory_bytes": "bytes"}
    return unit_for(kinds.get(name, "s"), largest)


def _cell(rank: Rank, name: str, unit: Unit) -> str:
    return short(rank.measures[name] * unit.factor) if name in rank.measures else ""


def _note(ranks: Sequence[Rank], slow: Sequence[Rank], num_shown: int) -> str:
    note = "Means of all rows without the first, which includes warm-up."
    if num_shown < len(ranks):
        note += f" The slowest {num_shown} of {len(ranks):,} ranks."
    if slow:
        named = ", ".join(f"{rank.number}" for rank in slow[:MAX_ROWS])
        few = "Straggler" if len(slow) == 1 else "Stragglers"
        note += f" {few}: {named}; all others wait for the slowest in every step."
    return note
