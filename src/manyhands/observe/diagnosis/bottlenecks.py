"""What costs a run its speed: data, launches, communication, checkpoints, a slow rank, memory."""

import math
from collections.abc import Iterator, Mapping
from statistics import median
from typing import NamedTuple

from manyhands.observe.diagnosis.advice import (
    GOOD_UTILIZATION,
    MIN_SHARE,
    NOTE,
    WARNING,
    Diagnosis,
    milliseconds,
    severity_of,
    speed_up,
    utilization_band,
)
from manyhands.observe.diagnosis.batch import (
    SAME,
    effective_change,
    larger_micro_batch,
    larger_step,
    less_memory_per_sample,
    samples_per_process,
    smaller_micro_batch,
)
from manyhands.observe.diagnosis.history import History, Row, number, values
from manyhands.observe.diagnosis.loading import data_share, slow_data

MIN_IDLE = 0.15
"""Idle time of a GPU that no phase explains; sampling once per second is off by less."""
MIN_SLOWDOWN = 1.2
"""Own work of the slowest rank over that of the others; equal GPUs differ by a few percent."""
FULL_MEMORY = 0.95
"""Fraction of a memory from which a larger sample may not fit; allocators fragment the rest."""
TARGET_SAVING_SHARE = 0.02
"""Fraction of the time that the proposed --save_freq spends on saving."""
WORK = ("data_s", "copy_s", "forward_s", "backward_s", "optimizer_s", "checkpoint_s")
"""Phases in which a rank does not wait for others."""
SLOW_LOADER = "Check the disk of its host; set --num_workers or --cache.mode=ram"
SLOW_CPU = "Look for another program on its host, and start no more processes than it has cores"
SLOW_DEVICE = (
    "Look for another program, heat or a lower clock on it (nvidia-smi); exclude it with "
    "--launch.gpu_ids"
)


def bottlenecks(history: History) -> Iterator[Diagnosis]:
    """Every cause of lost speed, the most expensive first where they depend on each other."""
    slow = [*stragglers(history)]
    yield from slow
    # Where a single rank waits for its data, that rank is the problem.
    if not any(each.remedy == SLOW_LOADER for each in slow):
        yield from slow_data(history)
    yield from frequent_saves(history)
    yield from slow_communication(history)
    yield from idle_gpu(history)
    yield from full_memory(history)


def frequent_saves(history: History) -> Iterator[Diagnosis]:
    """Training waits for its checkpoints."""
    rows = history.steady
    share = history.share("checkpoint_s", rows)
    num_saves = sum(number(row, "checkpoint_s") > MIN_SHARE * row["step_s"] for row in rows)
    if share < MIN_SHARE or num_saves < 2:
        return
    period = history.setting("save_freq", 0)
    longer = round_up(max(1, period) * share / TARGET_SAVING_SHARE)
    waits = "of the time waits for checkpoints"
    yield Diagnosis(
        kind="checkpoint_bound",
        severity=severity_of(share),
        text=f"Saving limits the speed: {share:.0%} {waits}, one every {period} steps",
        remedy=f"Set --save_freq={longer}",
        gain=f"{speed_up(share)}: {share:.0%} {waits}",
    )


def round_up(period: float) -> int:
    """The next number with one significant digit."""
    unit = 10 ** (len(str(int(period))) - 1)
    return int(-(-period // unit) * unit)


def slow_communication(history: History) -> Iterator[Diagnosis]:
    """Steps wait for the all-reduce of gradients."""
    share = network_share(history)
    # Processes that share the cores of one machine wait for a core, not for a network.
    if share < MIN_SHARE or shares_cores(history):
        return
    flags = f"{larger_step(history)}: {effective_change(history)}"
    if history.setting("accelerator.ddp.gradient_compression") == "none":
        flags = f"--accelerator.ddp.gradient_compression=bf16, or {flags}"
    yield Diagnosis(
        kind="communication_bound",
        severity=severity_of(share),
        text=f"Communication limits the speed: {share:.0%} of each step waits for the all-reduce "
        "of gradients on every rank",
        remedy=f"Set {flags}",
        gain=f"{speed_up(share / 2)}: half of the {share:.0%} that each step waits for gradients",
    )


def network_share(history: History) -> float:
    """The fraction of a step that the rank which waits least spends in communication."""
    # Ranks wait for slower ones too, now for one and then for another. Whoever comes last waits for
    # the network alone.
    waits: dict[int, list[float]] = {}
    for rows in history.by_rank.values():
        for row in rows:
            waits.setdefault(int(number(row, "step")), []).append(
                number(row, "communication_s") / row["step_s"]
            )
    least = [min(shares) for shares in waits.values() if len(shares) > 1]
    return median(least) if least else 0.0


def shares_cores(history: History) -> bool:
    """Whether all ranks compute on the CPU of one machine."""
    ranks = history.fact("ranks", [])
    hosts = {rank.get("host") for rank in ranks}
    return len(hosts) < 2 and all(str(rank.get("device")).startswith("cpu") for rank in ranks)


def idle_gpu(history: History) -> Iterator[Diagnosis]:
    """A GPU is idle although nothing makes it wait: the host launches too little at a time."""
    utilization = history.typical("gpu_utilization")
    if utilization is None or utilization >= GOOD_UTILIZATION:
        return
    explained = data_share(history) + history.usual_share("logging_s")
    explained += history.share("checkpoint_s", history.recent)
    idle = 1 - utilization - explained
    if idle < MIN_IDLE:
        return
    # Other modes may run eagerly too, where steps cannot be captured.
    is_eager = history.setting("step.mode") == "eager"
    flags, factor, consequence = larger_micro_batch(history)
    most, also = (math.inf, "") if is_eager else (factor, f"; {consequence}")
    yield Diagnosis(
        kind="launch_bound",
        severity=WARNING if utilization_band(utilization) == "poor" else NOTE,
        text=f"Steps are too small for the GPU: its utilization is {utilization:.0%} "
        f"({utilization_band(utilization)}) with {samples_per_process(history)} samples per "
        "process",
        remedy=f"Set {'--step.mode=auto' if is_eager else flags}",
        gain=f"{speed_up(idle, most)} samples per second: the GPU is idle {idle:.0%} of the time"
        f"{also}",
    )


class Pace(NamedTuple):
    """The usual own work of a rank in a step, in seconds."""

    busy_s: float
    phases: Mapping[str, float]
    row: Row


def stragglers(history: History) -> Iterator[Diagnosis]:
    """One rank is slower than the others, which wait for it."""
    paces = {rank: pace_of(rows) for rank, rows in history.by_rank.items()}
    if len(paces) < 2 or any("communication_s" not in pace.row for pace in paces.values()):
        return
    slowest = max(paces, key=lambda rank: paces[rank].busy_s)
    own, others = paces[slowest], [pace for rank, pace in paces.items() if rank != slowest]
    usual = median(pace.busy_s for pace in others)
    if own.busy_s < MIN_SLOWDOWN * usual:
        return
    phase = max(own.phases, key=lambda name: own.phases[name] - usual_phase(others, name))
    gpu = f", {own.row['gpu']}" if own.row.get("gpu") else ""
    place = f"rank {slowest} ({own.row.get('host')}{gpu})"
    yield Diagnosis(
        kind="straggler",
        severity=severity_of(1 - usual / own.busy_s),
        text=f"One rank slows all others down: {place} works {milliseconds(own.busy_s)} per step, "
        f"the others {milliseconds(usual)}; most of the difference is in "
        f"{phase.removesuffix('_s')}",
        remedy=straggler_remedy(phase, own.row),
        gain=f"{speed_up(1 - usual / own.busy_s)} if rank {slowest} were as fast as the others",
    )


def straggler_remedy(phase: str, row: Row) -> str:
    """What to do about a rank that is slow in a phase."""
    if phase == "data_s":
        return SLOW_LOADER
    return SLOW_DEVICE if row.get("gpu") else SLOW_CPU


def pace_of(rows: list[Row]) -> Pace:
    """The usual pace of a rank."""
    busy = [row["step_s"] - number(row, "communication_s") for row in rows]
    phases = {name: median(found) for name in WORK if (found := values(name, rows))}
    return Pace(median(busy), phases or {"data_s": 0.0}, rows[-1])


def usual_phase(paces: list[Pace], name: str) -> float:
    """What the usual rank spends in a phase."""
    return median(pace.phases.get(name, 0.0) for pace in paces)


def full_memory(history: History) -> Iterator[Diagnosis]:
    """A memory is nearly full: one larger sample, and the run ends."""
    share = history.typical("gpu_memory_share")
    if share is not None and share >= FULL_MEMORY:
        is_one = samples_per_process(history) == 1
        yield Diagnosis(
            kind="memory_nearly_full",
            severity=NOTE,
            text=f"GPU memory is nearly full: {share:.0%}",
            remedy=less_memory_per_sample(history)
            if is_one
            else f"Set {smaller_micro_batch(history)}",
            gain="less memory per sample" if is_one else f"fewer activations, {SAME}",
        )
    used, total = history.typical("host_memory_bytes"), history.fact("hardware.memory_bytes", 0)
    if used is not None and total and used / total >= FULL_MEMORY:
        yield Diagnosis(
            kind="memory_nearly_full",
            severity=WARNING,
            text=f"Host memory is nearly full: {used / total:.0%}; the kernel ends processes then",
            remedy="Set --max_ram or fewer --num_workers",
            gain="the run is not killed",
        )
