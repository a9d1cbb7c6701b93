"""`manyhands bench inference`: latency of a policy's action chunks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from manyhands.cli.flags import read_with_synthetic, write_results
from manyhands.errors import ConfigError
from manyhands_bench.config import BenchInferenceConfig

if TYPE_CHECKING:
    from manyhands_bench.inference.latency import InferenceResult

USAGE = """manyhands bench inference --policy.type=act [--batch_sizes=[1,64]] [--against=PYTHON]

Times the prediction of an action chunk, from an observation in host memory to raw actions in host
memory. Observations are synthetic: --cameras=2 --image_size=[480,640] --state_dim=14
--action_dim=14. --policy.path=FOLDER measures a trained policy with its own features.

--against=PYTHON measures LeRobot's policy in the same run. All other flags are those of manyhands
train."""


def bench_inference_command(arguments: Sequence[str]) -> int:
    """Time predictions; return the exit code."""
    bench, config = read_with_synthetic(BenchInferenceConfig, USAGE, arguments)
    if config.dataset.is_named:
        raise ConfigError(["bench inference reads no dataset. Remove --dataset"])
    from manyhands_bench.inference.latency import bench_inference

    result = bench_inference(bench, config)
    Console(highlight=False).print(latency_table(result))
    write_results(bench.json, result.as_json())
    return 0


def latency_table(result: "InferenceResult") -> Table:
    """A row for every batch size, and LeRobot's beside it."""
    table = Table(
        "batch", "median ms", "p90 ms", "LeRobot ms", "", box=SIMPLE_HEAD, title=result.device
    )
    for row in result.rows:
        others = ("", "")
        if row.reference_median_ms is not None:
            ratio = row.reference_median_ms / row.median_ms
            others = (f"{row.reference_median_ms:.2f}", f"{ratio:.1f}x")
        table.add_row(str(row.batch_size), f"{row.median_ms:.2f}", f"{row.p90_ms:.2f}", *others)
    return table
