"""Speed-up and efficiency over numbers of processes: measured here, modelled beyond.

Speed-up is samples per second relative to one process, efficiency is speed-up per process. The
fraction of communication is 1 - (step time with no-op collectives) / (step time), both measured on
the same number of processes side by side: contention for cores or memory is not communication,
waiting for a slower process is.
"""

from collections import defaultdict
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from manyhands.config.launch.launcher import Launcher
from manyhands.config.train import TrainConfig
from manyhands.data.loading.stream import BatchSplit
from manyhands.launch.workers import threads_per_worker
from manyhands.observe.console import OnProgress
from manyhands.parallel.strategy import Strategy, resolve_strategy
from manyhands.plan.communication import Link, Traffic, Update, modelled_update, num_messages_of
from manyhands.plan.link import usual_link
from manyhands.training.setup.batch import split_batch
from manyhands_bench.config import BenchScalingConfig
from manyhands_bench.scaling.host import Host, host_of, refuse_other_starts, sizes_of
from manyhands_bench.scaling.rank import RankReport, RankRequest
from manyhands_bench.scaling.world import measure_world, placed

MEASURED, MODELLED = "measured", "modelled"


@dataclass(frozen=True, kw_only=True)
class Row:
    """The speed of a number of processes."""

    processes: int
    kind: str
    strategy: str
    samples_per_step: int
    samples_per_s: float
    speedup: float
    efficiency: float
    communication_share: float
    step_ms: float
    compute_ms: float
    """A step with no-op collectives."""
    ranks: list[dict[str, Any]] = field(default_factory=list)
    """The measured processes; the single process before all others, and after them."""
    model: dict[str, Any] = field(default_factory=dict)
    """Inputs of the model."""


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """All rows, and the setup of the measurement."""

    rows: list[Row]
    host: Host
    threads: int
    device: str
    precision: str
    is_strong: bool
    """Strong scaling: whether the effective batch is constant, not the local batch."""
    num_samples: int
    """The effective batch of one process."""


@dataclass(frozen=True)
class Case:
    """A number of processes with their strategy and local batch."""

    strategy: Strategy
    split: BatchSplit

    @property
    def processes(self) -> int:
        """The number of processes."""
        return self.split.num_ranks


@dataclass(frozen=True)
class Measured:
    """Processes and their measured step time."""

    case: Case
    update: Update
    reports: list[RankReport]


def bench_scaling(
    bench: BenchScalingConfig, config: TrainConfig, launcher: Launcher, on_progress: OnProgress
) -> Scaling:
    """Measure what this machine can run, and model the rest."""
    refuse_other_starts(config, launcher)
    host = host_of(bench, config, launcher)
    sizes = sizes_of(bench, host)
    # All cases before the first measurement, so that errors come at once.
    cases = {number: case_of(config, launcher, number) for number in sizes.all}
    measured = measure(bench, config, [cases[number] for number in sizes.measured], on_progress)
    rows = [measured_row(each, measured[0]) for each in measured]
    for number in sizes.modelled:
        link = link_of(bench, host.is_gpu, number, host.capacity)
        traffic = traffic_of(cases[number], measured[0].reports[0].traffic, config)
        rows.append(modelled_row(cases[number], measured, traffic, link, bench.overlap))
    single = measured[0].reports[0]
    return Scaling(
        rows=sorted(rows, key=lambda row: row.processes),
        host=host,
        threads=single.threads,
        device=single.device,
        precision=single.precision,
        is_strong=config.global_batch_size is not None,
        num_samples=cases[1].split.samples_per_step,
    )


def case_of(config: TrainConfig, launcher: Launcher, number: int) -> Case:
    """The case of a number of processes; raises if weights or batch cannot be split."""
    launcher = replace(launcher, num_ranks=number, num_local_ranks=number)
    strategy = resolve_strategy(placed(config, number), launcher)
    return Case(strategy, split_batch(config, 0, number))


def measure(
    bench: BenchScalingConfig, config: TrainConfig, cases: list[Case], on_progress: OnProgress
) -> list[Measured]:
    """Measure each number of processes with and without communication.

    The single process, the baseline, is measured before and after the others.
    """
    base = RankRequest(
        num_steps=bench.steps,
        warm_up=bench.warm_up,
        threads=bench.threads or threads_per_worker(cases[-1].processes),
        exchanges=True,
    )
    several = [case.processes for case in cases[1:]]
    worlds = [(number, is_silent) for number in several for is_silent in (False, True)]
    worlds = [(1, False), *worlds, (1, False)] if several else [(1, False)]
    reports: defaultdict[tuple[int, bool], list[RankReport]] = defaultdict(list)
    for done, (number, is_silent) in enumerate(worlds):
        on_progress(done, len(worlds))
        request = replace(base, exchanges=not is_silent)
        reports[number, is_silent] += measure_world(config, number, request)
    on_progress(len(worlds), len(worlds))
    return [
        measured_of(case, reports[case.processes, False], reports[case.processes, True])
        for case in cases
    ]


def measured_of(case: Case, exchanging: list[RankReport], silent: list[RankReport]) -> Measured:
    """The measurement of a case; a single process has no communication."""
    if case.processes > 1:
        return Measured(case, update_of(exchanging, silent), exchanging)
    step_s = median(seconds for report in exchanging for seconds in report.step_s)
    return Measured(case, Update(compute_s=step_s, exchange_s=0.0, overlap=0.0), exchanging)


def update_of(exchanging: list[RankReport], silent: list[RankReport]) -> Update:
    """The time of a step, from steps with and without communication."""
    step_s = pace_of(exchanging)
    # Noise may make steps without communication slower; communication costs nothing then.
    compute_s = min(step_s, pace_of(silent))
    return Update(compute_s=compute_s, exchange_s=step_s - compute_s, overlap=0.0)


def pace_of(reports: list[RankReport]) -> float:
    """The step time of the slowest process."""
    return max(median(report.step_s) for report in reports)


def measured_row(measured: Measured, single: Measured) -> Row:
    """The row of measured processes, with details of each."""
    ranks = [
        {
            "rank": each.rank,
            "num_ranks": each.num_ranks,
            "pid": each.pid,
            "device": each.device,
            "threads": each.threads,
            "step_ms": 1e3 * median(each.step_s),
        }
        for each in measured.reports
    ]
    return replace(row_of(measured.case, measured.update, single), ranks=ranks)


def modelled_row(
    case: Case, measured: list[Measured], traffic: Traffic, link: Link, overlap: float | None
) -> Row:
    """The row of modelled processes, from the measured ones."""
    single, most = measured[0], measured[-1]
    samples = case.split.most_per_rank / most.case.split.most_per_rank
    compute_s = samples * most.update.compute_s
    update = modelled_update(compute_s, case.strategy, traffic, link, overlap)
    update = replace(update, least_s=most.update.exchange_s)
    model = {
        "measured_processes": most.case.processes,
        "compute_ms": 1e3 * update.compute_s,
        "exchange_ms": 1e3 * update.exchange_s,
        "least_exchange_ms": 1e3 * update.least_s,
        "overlap": update.overlap,
        "num_messages": num_messages_of(case.strategy, traffic),
        "link": link.name,
        "link_gbps": link.gbps,
        "link_latency_us": link.latency_us,
        **asdict(traffic),
    }
    return replace(row_of(case, update, single), kind=MODELLED, model=model)


def row_of(case: Case, update: Update, single: Measured) -> Row:
    """The speed for a step time, relative to a single process."""
    num_samples = case.split.samples_per_step
    more = num_samples / single.case.split.samples_per_step
    speedup = more * (single.update.step_s / update.step_s)
    return Row(
        processes=case.processes,
        kind=MEASURED,
        strategy=case.strategy.kind.value,
        samples_per_step=num_samples,
        samples_per_s=num_samples / update.step_s,
        speedup=speedup,
        efficiency=speedup / case.processes,
        communication_share=update.communication_share,
        step_ms=1e3 * update.step_s,
        compute_ms=1e3 * update.compute_s,
    )


def link_of(bench: BenchScalingConfig, is_gpu: bool, num_processes: int, capacity: int) -> Link:
    """The link from the flags, else the default for that many processes."""
    link = usual_link(is_gpu, num_processes, capacity)
    if bench.link_gbps is not None:
        link = replace(link, name="set by --link_gbps", gbps=bench.link_gbps)
    if bench.link_latency_us is not None:
        link = replace(link, latency_us=bench.link_latency_us)
    return link


def traffic_of(case: Case, traffic: Traffic, config: TrainConfig) -> Traffic:
    """The communication volume of a step, with the flags of the run."""
    is_halved = config.accelerator.ddp.gradient_compression == "bf16"
    num_passes = 2 if case.strategy.fsdp.reshard_after_forward else 1
    return replace(
        traffic,
        gradient_bytes=traffic.gradient_bytes // (2 if is_halved else 1),
        num_gathers=num_passes * case.split.num_micro_batches,
    )
