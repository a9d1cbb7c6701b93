"""`manyhands bench step`: time, memory and efficiency of an update."""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from manyhands.cli.flags import read_with_synthetic, write_results
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError
from manyhands.launch.environment import current_launcher
from manyhands.observe.console import progress_bar
from manyhands.observe.fitted_tables import print_table
from manyhands.observe.wrapping import print_wrapped
from manyhands_bench.config import BenchStepConfig

if TYPE_CHECKING:
    from manyhands_bench.step.loading import Loaded
    from manyhands_bench.step.row import Row
    from manyhands_bench.step.speed import StepResult

USAGE = """manyhands bench step [--dataset.root=DIR] --policy.type=act --batch_size=64 [...]

Times steps of one process on one device, on a batch in device memory. Without --dataset.* the data
is synthetic: --cameras=2 --image_size=[480,640] --state_dim=14 --action_dim=14.

--compare=[eager,graph,compile] measures several modes of --step.mode, --with_loader also trains
from the real loader, --against=PYTHON measures LeRobot's steps in the same run, --phase_cost what
timing their phases costs. All other flags are those of manyhands train."""


def bench_step_command(arguments: Sequence[str]) -> int:
    """Time updates; return the exit code."""
    bench, config = read_step_flags(arguments)
    launcher = current_launcher()
    from manyhands_bench.step.speed import bench_step

    with progress_bar("measuring steps") as on_progress:
        result = bench_step(bench, config, launcher, on_progress)
    show(result, bench)
    write_results(bench.json, result.as_json())
    return 0


def read_step_flags(arguments: Sequence[str]) -> tuple[BenchStepConfig, TrainConfig]:
    """The measurement, and the run that is measured."""
    bench, config = read_with_synthetic(BenchStepConfig, USAGE, arguments)
    if bench.with_loader and not config.dataset.is_named:
        raise ConfigError(["--with_loader needs a dataset. Set --dataset.root=FOLDER"])
    return bench, config


def show(result: "StepResult", bench: BenchStepConfig) -> None:
    """The result as a table, and how to read it."""
    print_table(*step_table(result), num_keys=2)
    for line in captions(result, bench):
        print_wrapped(line, sys.stdout)


def step_table(result: "StepResult") -> tuple[list[str], list[list[str]]]:
    """The names of columns, and a row for every mode, and LeRobot's."""
    names = ("mode", "precision", "median ms", "p10", "p90", "samples/s", "TFLOP/s", "of peak")
    against = ["vs LeRobot"] if result.reference else []
    rows = [
        [*cells_of(row), *(speedup(row, result) for _ in against)]
        for row in (*result.rows, *result.reference)
    ]
    columns = [*names, "GiB", "setup s", *against]
    if result.with_loader is not None:
        cells = loader_cells(result, result.with_loader)
        rows.append(cells + [""] * (len(columns) - len(cells)))
    return columns, rows


def cells_of(row: "Row") -> list[str]:
    """A row of the table."""
    return [
        row.mode,
        "fp32" if row.precision == "no" else row.precision,
        f"{row.median_ms:.2f}",
        f"{row.p10_ms:.2f}",
        f"{row.p90_ms:.2f}",
        f"{row.samples_per_s:,.1f}",
        "" if row.tflops is None else f"{row.tflops:.3g}",
        "" if row.mfu is None else f"{row.mfu:.1%}",
        f"{row.peak_memory_gib:.2f}",
        f"{row.setup_s:.1f}",
    ]


def loader_cells(result: "StepResult", loaded: "Loaded") -> list[str]:
    """The row of training as a whole, whose updates are not timed one by one."""
    mode, precision, *_ = cells_of(result.rows[0])
    mean_ms = 1e3 * result.batch_size / loaded.samples_per_s
    times = [f"{mean_ms:.2f}", "", "", f"{loaded.samples_per_s:,.1f}"]
    return [f"{mode} + loader", precision, *times]


def speedup(row: "Row", result: "StepResult") -> str:
    """How many times as fast as LeRobot in the same precision a row is."""
    same = [each for each in result.reference if each.precision == row.precision]
    return f"{same[0].median_ms / row.median_ms:.2f}x" if same else ""


def captions(result: "StepResult", bench: BenchStepConfig) -> Iterator[str]:
    """What the table does not say."""
    yield (
        f"{result.device}, batch {result.batch_size}; median of {bench.num_steps} steps after "
        f"{bench.warm_up} warm-up steps; {result.flops_per_update / 1e12:.3g} TFLOP per step; "
        f"peak {result.peak_tflops:.3g} TFLOP/s, measured with a matrix product"
    )
    limits = result.roofline
    yield (
        f"roofline: {limits.compute_ms:,.2f} ms for compute at that peak, {limits.memory_ms:,.2f} "
        f"ms for {limits.bytes_per_update / 1e9:.3g} GB at {limits.peak_bytes_per_s / 1e9:,.0f} "
        f"GB/s; at least {limits.floor_ms:,.2f} ms, summed over kernels, without fusion"
    )
    for row in result.rows:
        yield from phase_captions(row)
        yield from (f"{row.mode}: {note}" for note in row.notes)
    if result.phase_cost is not None:
        yield f"timing the phases of steps takes {result.phase_cost:.2%} of a step"
    loaded = result.with_loader
    if loaded is not None:
        yield (
            f"+ loader: mean step time with {loaded.num_workers} loader processes, "
            f"{loaded.share:.1%} of the samples/s without loading"
        )


def phase_captions(row: "Row") -> Iterator[str]:
    """Where the time of an update goes."""
    times = {
        "host": row.host_ms,
        "device": row.device_ms,
        "forward": row.forward_ms,
        "backward": row.backward_ms,
        "optimizer and other": row.optimizer_ms,
    }
    parts = [f"{name} {value:.2f} ms" for name, value in times.items() if value is not None]
    if parts:
        yield f"{row.mode}: {', '.join(parts)}"
