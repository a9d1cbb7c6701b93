"""`manyhands bench loader`: samples per second, decoded and from the cache."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from manyhands.cli.flags import read_command_flags, write_results
from manyhands.observe.console import progress_bar
from manyhands_bench.config import BenchLoaderConfig

if TYPE_CHECKING:
    from manyhands_bench.loader.rates import LoaderResult

USAGE = """manyhands bench loader --dataset.root=DIR --policy.type=diffusion [--flag=value ...]

Reads batches as training would, first decoding every frame, then from the frame cache, and reports
samples per second. --against=PYTHON measures LeRobot's loader in the same run. All other flags are
those of manyhands train."""


def bench_loader_command(arguments: Sequence[str]) -> int:
    """Measure the loader; return the exit code."""
    bench, config = read_command_flags(BenchLoaderConfig, USAGE, arguments)
    from manyhands_bench.loader.rates import bench_loader

    with progress_bar("decoding frames") as on_progress:
        result = bench_loader(bench, config, on_progress)
    show(result)
    write_results(bench.json, asdict(result))
    return 0


def show(result: "LoaderResult") -> None:
    """The result as a table."""
    table = Table("loading", "samples/s", "vs LeRobot")
    rates = {
        "decode": ("every frame decoded", result.decode_samples_per_s),
        "cache": ("from the frame cache", result.cache_samples_per_s),
        "reference": ("LeRobot's loader", result.reference_samples_per_s),
    }
    for way, (name, rate) in rates.items():
        if rate is not None:
            ratio = result.speedups.get(way)
            table.add_row(name, f"{rate:,.0f}", f"{ratio:.1f}x" if ratio else "")
    console = Console()
    console.print(table)
    console.print(
        f"batch {result.batch_size}, {result.num_workers} loader processes; {result.cache_reason}"
    )
    if result.resident_mib:
        first, last = result.resident_mib[0], result.resident_mib[-1]
        console.print(
            f"memory of all processes: {first:,.0f} MiB after epoch 1, {last:,.0f} MiB after "
            f"epoch {len(result.resident_mib)} ({last / first - 1:+.1%})"
        )
