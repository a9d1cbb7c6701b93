"""Which row of a plan to run, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from manyhands import units
from manyhands.plan.plan import Row

MIN_EFFICIENCY = 0.8
"""Speed-up per GPU below which more GPUs wait for each other more than they gain."""
REPLICATED = ("single", "DDP", "DP")
SHARDED = ("HSDP", "FSDP2")
SIMPLEST = REPLICATED + SHARDED
"""Strategies, the one that communicates least first."""


@dataclass(frozen=True)
class Recommendation:
    """A row, and the reason in words."""

    row: Row
    reason: str


def recommend(rows: Sequence[Row]) -> Recommendation | None:
    """The most GPUs that are used well, with the simplest strategy that fits; None if none does."""
    possible = [row for row in rows if row.is_possible]
    by_number: dict[int, Row] = {}
    for row in sorted(possible, key=lambda row: SIMPLEST.index(row.strategy)):
        by_number.setdefault(row.gpus, row)
    simplest = [by_number[number] for number in sorted(by_number)]
    if not simplest:
        return None
    efficient = [row for row in simplest if efficiency(row, simplest[0]) >= MIN_EFFICIENCY]
    row = efficient[-1] if simplest[0].time is not None else simplest[-1]
    return Recommendation(row, "; ".join(reasons(row, simplest, rows)))


def efficiency(row: Row, base: Row) -> float:
    """Speed-up per GPU relative to the row with the fewest GPUs; 1 where no time is known."""
    if row.time is None or base.time is None:
        return 1.0
    return (row.time.samples_per_s / row.gpus) / (base.time.samples_per_s / base.gpus)


def reasons(row: Row, simplest: Sequence[Row], rows: Sequence[Row]) -> list[str]:
    """Why this row."""
    base, found = simplest[0], []
    if row.time is not None and base.time is not None and row is not base:
        speedup = row.time.samples_per_s / base.time.samples_per_s
        found.append(
            f"{speedup:.2f}x the samples per second of {base.scale}, "
            f"{efficiency(row, base):.0%} efficiency"
        )
    if row is not simplest[-1]:
        more = simplest[simplest.index(row) + 1]
        found.append(f"{more.gpus} GPUs would be at {efficiency(more, base):.0%}")
    return [*found, *memory_reasons(row, [other for other in rows if other.gpus == row.gpus])]


def memory_reasons(row: Row, alternatives: Sequence[Row]) -> Iterator[str]:
    """Why the weights are sharded or not, as far as memory is known."""
    whole = [other for other in alternatives if other.strategy in REPLICATED]
    is_sharded = row.strategy in SHARDED
    if is_sharded and any(other.fits is False for other in whole):
        yield "the weights do not fit on every GPU"
    if row.fits and not is_sharded and any(other.strategy in SHARDED for other in alternatives):
        yield "the weights fit on every GPU, so that sharding them would only cost time"
    if row.memory is not None:
        yield f"{units.num_bytes(row.memory.needed)} per GPU"
    if row.fits is None:
        yield "set --gpu_memory, such as --gpu_memory=80GiB, to see what fits"
