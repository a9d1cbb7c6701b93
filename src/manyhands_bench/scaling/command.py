"""`manyhands bench scaling`: speed-up, efficiency and communication over numbers of processes."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from manyhands.cli.flags import read_command_flags, write_results
from manyhands.launch.environment import current_launcher
from manyhands.observe.console import progress_bar
from manyhands.units import num_bytes
from manyhands_bench.config import BenchScalingConfig

if TYPE_CHECKING:
    from manyhands_bench.scaling.speedup import Row, Scaling

USAGE = """manyhands bench scaling --dataset.root=DIR --policy.type=act [--processes=[1,2,4]] [...]

Starts 1, 2, 4, ... processes as training does, times steps on a batch in memory, and reports
speed-up and efficiency. Each process has --batch_size samples (weak scaling); with
--global_batch_size the global batch is constant (strong scaling).

communication is 1 - (step with no-op collectives) / (step), on the same number of processes:
contention for cores or memory is not communication, waiting for a slower rank is.

More processes than this machine has GPUs, or else CPU cores, are modelled from the measured ones
and a link speed, which the table states. All other flags are those of manyhands train."""

BUSY = 0.25
"""The share of the cores from which on other programs are worth a warning."""
DRIFT = 0.1
"""The difference between measurements of one process that is worth a warning."""
COMMUNICATION = (
    "communication = 1 - (step with no-op collectives) / (step), both on that many processes; "
    "includes waiting for slower ranks"
)


def bench_scaling_command(arguments: Sequence[str]) -> int:
    """Measure and model numbers of processes; return the exit code."""
    bench, config = read_command_flags(BenchScalingConfig, USAGE, arguments)
    from manyhands_bench.scaling.speedup import bench_scaling
    from manyhands_bench.scaling.world import WorldFailed

    try:
        with progress_bar("measuring processes") as on_progress:
            scaling = bench_scaling(bench, config, current_launcher(), on_progress)
    except WorldFailed as failed:
        return failed.exit_code
    show(scaling, bench)
    write_results(bench.json, [as_json(row) for row in scaling.rows])
    return 0


def bench_rank_command(arguments: Sequence[str]) -> int:
    """Be one of the processes that are measured; what and where to report is in a folder."""
    from manyhands_bench.scaling.world import write_report

    write_report(Path(arguments[0]))
    return 0


def as_json(row: "Row") -> dict[str, object]:
    """A row for programs; what it does not have is left out."""
    return {name: value for name, value in asdict(row).items() if value not in ({}, [])}


def show(scaling: "Scaling", bench: BenchScalingConfig) -> None:
    """The rows as a table, and how to read them."""
    unit = "GPUs" if scaling.host.is_gpu else "processes"
    table = Table(unit, "speed-up", "efficiency", "communication", "samples/s", "kind")
    for row in scaling.rows:
        table.add_row(
            str(row.processes),
            f"{row.speedup:.2f}x",
            f"{row.efficiency:.1%}",
            f"{row.communication_share:.1%}",
            f"{row.samples_per_s:,.1f}",
            row.kind,
        )
    console = Console(highlight=False)
    console.print(table)
    for line in captions(scaling, bench):
        console.print(line, soft_wrap=True)


def captions(scaling: "Scaling", bench: BenchScalingConfig) -> Iterator[str]:
    """What the rows are rows of."""
    strategy, host, num_samples = scaling.rows[-1].strategy, scaling.host, scaling.num_samples
    if scaling.is_strong:
        yield f"{strategy}, strong scaling: {num_samples} samples per step in every row"
    else:
        yield f"{strategy}, weak scaling: {num_samples} samples per process and step"
    yield (
        f"{scaling.device}, precision {scaling.precision}; {host.num_cores} CPU cores, threads "
        f"per process: {scaling.threads}; median of {bench.steps} steps after {bench.warm_up} "
        "warm-up steps, data in memory"
    )
    times = [rank["step_ms"] for rank in scaling.rows[0].ranks]
    if max(times) > (1 + DRIFT) * min(times):
        yield (
            f"WARNING: one process took {times[0]:.2f} ms before the others and {times[-1]:.2f} "
            "ms after them: the speed of the machine varies, and no row is more accurate than that"
        )
    if host.busy_share > BUSY:
        yield (
            f"WARNING: other programs used {host.busy_share:.0%} of the cores at the start; "
            "measure again on an idle machine"
        )
    yield COMMUNICATION
    yield from model_captions([row for row in scaling.rows if row.model])


def model_captions(rows: "list[Row]") -> Iterator[str]:
    """What modelled rows are made of."""
    if not rows:
        return
    model, number = rows[0].model, rows[0].model["measured_processes"]
    yield (
        f"modelled rows: compute {model['compute_ms']:.2f} ms, communication at least "
        f"{model['least_exchange_ms']:.2f} ms, as measured with {number} "
        f"{'process' if number == 1 else 'processes'}; gradients "
        f"{num_bytes(model['gradient_bytes'])} in {model['num_messages']} messages; at most "
        f"{model['overlap']:.0%} of the communication overlaps with backward (--overlap)"
    )
    for row in rows:
        yield (
            f"  {row.processes}: {row.model['exchange_ms']:.2f} ms communication over "
            f"{row.model['link']}, {row.model['link_gbps']:,.0f} Gbit/s (--link_gbps), "
            f"{row.model['link_latency_us']:g} us (--link_latency_us)"
        )
