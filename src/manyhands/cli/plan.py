"""`manyhands plan`: estimate memory, disk and steps of a run before it starts."""

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import MAXYEAR, datetime
from typing import TYPE_CHECKING

from manyhands import units
from manyhands.cli.flags import read_with_synthetic, write_results
from manyhands.config.commands.plan import PlanConfig
from manyhands.config.train import TrainConfig
from manyhands.cores import num_cores
from manyhands.errors import ConfigError, UserError
from manyhands.observe.console import progress_bar
from manyhands.observe.fitted_tables import print_table
from manyhands.observe.wrapping import print_wrapped
from manyhands.units import count, num_bytes

if TYPE_CHECKING:
    from manyhands.plan.plan import Plan, Row
    from manyhands.plan.run_time import StepBenchmark

USAGE = """manyhands plan [--dataset.root=DIR] --policy.type=act --batch_size=64 [--gpus=[4]] [...]

Estimates the run of manyhands train with the same flags for several GPU counts: effective batch,
steps per epoch, learning rate, memory per GPU, checkpoints on disk, and recommends one. No GPU is
needed: the step runs on fake tensors. --probe times steps on this machine, --benchmark=FILE takes
those of manyhands bench step --json=FILE: then it estimates hours and end of every row.

Without --dataset.* the data is synthetic: --cameras=2 --image_size=[480,640] --state_dim=14
--action_dim=14. With --gpu_memory=80GiB it reports what fits; exit code 2: nothing fits. All other
flags are those of manyhands train."""

GIB = 2**30


def plan_command(arguments: Sequence[str]) -> int:
    """Plan a run; return the exit code."""
    plan, config = read_plan_flags(arguments)
    from manyhands.plan.plan import make_plan

    benchmark = find_benchmark(plan, config)
    with progress_bar("estimating memory") as on_progress:
        found = make_plan(plan, config, on_progress, benchmark)
    show(found, config)
    write_results(plan.json, found.as_json())
    return 0 if found.is_possible else UserError.exit_code


def read_plan_flags(arguments: Sequence[str]) -> tuple[PlanConfig, TrainConfig]:
    """Read the plan's own config, and the run, which must be new."""
    plan, config = read_with_synthetic(PlanConfig, USAGE, arguments)
    if config.resume is not False:
        raise ConfigError(f"--resume={config.resume} cannot be planned. Use the flags of a new run")
    return plan, config


def find_benchmark(plan: PlanConfig, config: TrainConfig) -> "StepBenchmark | None":
    """The step times to estimate with: of a file, measured now, or none."""
    from manyhands.plan.run_time import read_benchmark

    if plan.benchmark is not None:
        return read_benchmark(plan.benchmark)
    if not plan.probe:
        return None
    from manyhands.plan.topologies import planned_batch_sizes
    from manyhands_bench.step.probe import probe_steps

    with progress_bar("timing steps") as on_progress:
        return probe_steps(plan, config, planned_batch_sizes(plan, config), on_progress)


def show(plan: "Plan", config: TrainConfig) -> None:
    """Print the plan as tables with captions."""
    columns = (schedule_columns(plan), schedule_cells), (memory_columns(plan), memory_cells)
    for names, cells in columns if plan.feasible_rows else ():
        print_table(("GPUs", "strategy", *names), table_rows(plan, cells), num_keys=2)
    for line in (*captions(plan), *loader_captions(plan, config)):
        print_wrapped(line, sys.stdout)


def schedule_columns(plan: "Plan") -> tuple[str, ...]:
    """The columns of batches, steps, learning rates and times."""
    epoch = () if plan.num_samples is None else ("steps/epoch",)
    times = () if plan.benchmark is None else ("ms/step", "time", "ends")
    return ("batch", "effective", *epoch, "steps", "lr", "lr linear", "lr sqrt", *times)


def memory_columns(plan: "Plan") -> tuple[str, ...]:
    """The columns of memory by purpose."""
    verdict = () if plan.gpu_bytes is None else ("fits",)
    return ("weights", "optimizer", "step", "GiB/GPU", "capture", "trial", *verdict)


def table_rows(plan: "Plan", cells: "Callable[[Row, Plan], Iterator[str]]") -> list[list[str]]:
    """A row for each feasible topology."""
    return [[str(row.gpus), row.strategy, *cells(row, plan)] for row in plan.feasible_rows]


def schedule_cells(row: "Row", plan: "Plan") -> Iterator[str]:
    """Yield the cells of a row after its strategy."""
    yield f"{row.batch_size}" + (f" x {row.micro_batches}" if row.micro_batches > 1 else "")
    yield str(row.effective_batch)
    if row.steps_per_epoch is not None:
        yield f"{row.steps_per_epoch:,.3f}".rstrip("0").rstrip(".")
    yield f"{row.steps:,}"
    yield f"{row.lr:.3g}"
    yield from (f"{row.lr_rules[rule]:.3g}" for rule in ("linear", "sqrt"))
    if plan.benchmark is None:
        return
    if row.time is None:
        yield from ("", "", "")
        return
    yield f"{1e3 * row.time.step_s:,.1f}"
    yield units.duration(row.time.run_s)
    yield end_cell(row.time.ends_at)


def end_cell(ends_at: datetime | None) -> str:
    """When a run ends, with its year if that is not the current one."""
    if ends_at is None:
        return f"after {MAXYEAR}"
    year = "" if ends_at.year == datetime.now().year else " %Y"
    return f"{ends_at:%b %d{year} %H:%M %Z}"


def memory_cells(row: "Row", plan: "Plan") -> Iterator[str]:
    """Yield the cells of a row after its strategy."""
    assert row.memory is not None
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
    """Yield notes that complete the tables."""
    if plan.feasible_rows:
        yield from table_captions(plan)
    # DDP and FSDP2 often have the same fault.
    yield from dict.fromkeys(f"{row.scale}: {row.fault}" for row in plan.rows if row.fault)
    disks = {row.disk for row in plan.rows if row.disk is not None}
    for disk in sorted(disks, key=lambda each: each.most_bytes):
        yield (
            f"disk: {num_bytes(disk.checkpoint_bytes)} per checkpoint, at most "
            f"{disk.num_checkpoints} at a time: {num_bytes(disk.most_bytes)}"
        )
    yield recommendation(plan)


def table_captions(plan: "Plan") -> Iterator[str]:
    """Yield notes on the columns of the tables."""
    yield (
        f"{count(plan.num_parameters)} parameters, {count(plan.num_trained)} trained; precision "
        f"{'float32' if plan.precision == 'no' else plan.precision}"
    )
    yield from schedule_captions(plan)
    yield (
        "batch: micro-batch per GPU; step: peak of batch, activations and gradients; capture: "
        "temporary copies during CUDA graph capture at the first step, on the GPU or else in host "
        "memory; trial: memory of the process that tries the compiled step, if the GPU has that "
        "much free"
    )


def recommendation(plan: "Plan") -> str:
    """The recommended row, or what to change."""
    from manyhands.plan.recommendation import recommend

    best = recommend(plan.rows)
    if best is not None:
        return f"recommended: {best.row.scale}, {best.row.strategy}: {best.reason}"
    if not plan.feasible_rows:
        return "No number of GPUs is possible. Change the flags that are named above"
    return (
        "Nothing fits. Use a smaller micro-batch (--batch_size with --global_batch_size), "
        "shard the weights (--parallelism.dp_shard=-1), or use more GPUs"
    )


def schedule_captions(plan: "Plan") -> Iterator[str]:
    """Yield notes on steps, learning rates and times."""
    epochs = [row.steps_per_epoch for row in plan.rows if row.steps_per_epoch is not None]
    if any(steps % 1 for steps in epochs):
        yield (
            "steps/epoch: exact. A batch continues into the next epoch, so that no sample is "
            "dropped or repeated; --epochs rounds up at its end. Tools that drop the last batch "
            "round down, tools that pad it round up"
        )
    yield (
        "lr: as configured; lr linear, lr sqrt: with --scaling.lr=linear or sqrt and "
        "--scaling.base_batch_size, by default the effective batch of the first row"
    )
    if plan.benchmark is not None:
        yield (
            f"time: {plan.benchmark}; other batch sizes in proportion, communication from a model "
            "of the links; start, evaluation and loading that is slower than steps come on top"
        )


def loader_captions(plan: "Plan", config: TrainConfig) -> Iterator[str]:
    """Yield a warning if this machine has too few cores for the loader processes."""
    from manyhands.data.loading.forkserver import num_loaders

    numbers = dict.fromkeys(row.gpus for row in plan.rows if row.fault is None)
    workers, cores = config.num_workers or 0, num_cores()
    crowded = [gpus for gpus in numbers if workers and gpus * (1 + workers) > cores]
    if crowded:
        fitting = ", ".join(f"{num_loaders(None, gpus)} for {gpus}" for gpus in crowded)
        yield (
            f"WARNING: --num_workers={workers} and its GPU's process need {1 + workers} cores per "
            f"GPU; this machine has {cores}. Loader processes that fit, by GPUs: {fitting}"
        )
