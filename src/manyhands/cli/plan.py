"""`manyhands plan`: estimate memory, disk and steps of a run before it starts."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from manyhands.cli.flags import read_with_synthetic, write_results
from manyhands.config.commands import PlanConfig
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError, UserError
from manyhands.observe.console import progress_bar
from manyhands.units import count, num_bytes

if TYPE_CHECKING:
    from manyhands.plan.plan import Plan, Row

USAGE = """manyhands plan [--dataset.root=DIR] --policy.type=act --batch_size=64 [--gpus=[4]] [...]

Estimates the run of manyhands train with the same flags for several GPU counts: effective batch,
steps per epoch, learning rate, memory per GPU, checkpoints on disk. No GPU is needed: the step runs
on fake tensors.

Without --dataset.* the data is synthetic: --cameras=2 --image_size=[480,640] --state_dim=14
--action_dim=14. With --gpu_memory=80GiB it reports what fits; exit code 2: nothing fits. All other
flags are those of manyhands train."""

WIDTH = 120  # Columns of a table that is not read on a terminal.
GIB = 2**30


def plan_command(arguments: Sequence[str]) -> int:
    """Plan a run; return the exit code."""
    plan, config = read_plan_flags(arguments)
    from manyhands.plan.plan import make_plan

    with progress_bar("estimating memory") as on_progress:
        found = make_plan(plan, config, on_progress)
    show(found)
    write_results(plan.json, found.as_json())
    return 0 if found.is_possible else UserError.exit_code


def read_plan_flags(arguments: Sequence[str]) -> tuple[PlanConfig, TrainConfig]:
    """Read the plan's own config, and the run, which must be new."""
    plan, config = read_with_synthetic(PlanConfig, USAGE, arguments)
    if config.resume is not False:
        raise ConfigError(f"--resume={config.resume} cannot be planned. Use the flags of a new run")
    return plan, config


def show(plan: "Plan") -> None:
    """Print the plan as a table with captions."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(plan_table(plan))
    for line in captions(plan):
        console.print(line, soft_wrap=True, markup=False)


def plan_table(plan: "Plan") -> Table:
    """Build a table with a row for each topology."""
    epoch = () if plan.num_samples is None else ("steps/epoch",)
    verdict = () if plan.gpu_bytes is None else ("fits",)
    names = ("GPUs", "strategy", "batch", "effective", *epoch, "lr", "weights", "optimizer")
    table = Table(
        *(*names, "step", "GiB/GPU", "capture", "trial", *verdict),
        box=SIMPLE_HEAD,
        collapse_padding=True,
    )
    for row in plan.rows:
        if row.memory is not None:
            table.add_row(*row_cells(row, plan))
    return table


def row_cells(row: "Row", plan: "Plan") -> Iterator[str]:
    """Yield the cells of a feasible row."""
    assert row.memory is not None
    yield str(row.gpus)
    yield row.strategy
    yield f"{row.batch_size}" + (f" x {row.micro_batches}" if row.micro_batches > 1 else "")
    yield str(row.effective_batch)
    if row.steps_per_epoch is not None:
        yield f"{row.steps_per_epoch:,.1f}"
    yield f"{row.lr:.3g}"
    memory = row.memory
    state, on_top = (
        (memory.weights, memory.optimizer, memory.update),
        (memory.capture, memory.trial),
    )
    for size in (*state, memory.needed, *on_top):
        yield f"{size / GIB:.2f}"
    if plan.gpu_bytes is not None:
        yield "yes" if row.fits else "NO"


def captions(plan: "Plan") -> Iterator[str]:
    """Yield notes that complete the table."""
    yield (
        f"{count(plan.num_parameters)} parameters, {count(plan.num_trained)} trained; precision "
        f"{'float32' if plan.precision == 'no' else plan.precision}"
    )
    yield (
        "batch: micro-batch per GPU; step: peak of batch, activations and gradients; capture: "
        "temporary copies during CUDA graph capture at the first step, on the GPU or else in host "
        "memory; trial: memory of the process that tries the compiled step, if the GPU has that "
        "much free"
    )
    for row in plan.rows:
        if row.fault is not None:
            yield f"{row.gpus} GPUs: {row.fault}"
    disks = {row.disk for row in plan.rows if row.disk is not None}
    for disk in sorted(disks, key=lambda each: each.most_bytes):
        yield (
            f"disk: {num_bytes(disk.checkpoint_bytes)} per checkpoint, at most "
            f"{disk.num_checkpoints} at a time: {num_bytes(disk.most_bytes)}"
        )
    if not plan.is_possible:
        yield (
            "Nothing fits. Use a smaller micro-batch (--batch_size with --global_batch_size), "
            "shard the weights (--parallelism.dp_shard=-1), or use more GPUs"
        )
