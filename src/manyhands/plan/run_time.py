"""Estimates how long a run takes, from measured steps of one GPU and a model of communication."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from torch import nn

from manyhands.errors import UserError
from manyhands.parallel.sharded_engine import shard_units
from manyhands.plan.communication import Traffic, modelled_update
from manyhands.plan.link import usual_link
from manyhands.plan.topologies import PlannedRun

LOW_PRECISION_BYTES = 2


@dataclass(frozen=True)
class StepBenchmark:
    """Measured time of a step on one GPU, by the size of its only micro-batch."""

    seconds: Mapping[int, float]
    source: str
    """Where it was measured, for people."""

    def compute_s(self, batch_size: int) -> float:
        """The time of a micro-batch, in proportion to the nearest measured size."""
        measured = min(self.seconds, key=lambda number: abs(number - batch_size))
        return self.seconds[measured] * batch_size / measured


@dataclass(frozen=True)
class RunTime:
    """The estimated duration of a run."""

    step_s: float
    run_s: float
    samples_per_s: float
    communication_share: float
    ends_at: datetime | None
    """Local time of the end; None if it is beyond the calendar."""


def estimate_run_time(
    planned: PlannedRun, network: nn.Module, benchmark: StepBenchmark, starts_at: datetime
) -> RunTime | None:
    """Estimate a run on GPUs with the speed of the benchmark; None for DP, which has no model."""
    split, strategy = planned.split, planned.strategy
    if strategy.num_devices > 1:
        return None
    compute_s = split.num_micro_batches * benchmark.compute_s(split.micro_batch_size)
    num_gpus = strategy.num_shards * strategy.num_replicas
    link = usual_link(True, num_gpus, capacity=0)
    update = modelled_update(compute_s, strategy, traffic_of(network, planned), link)
    run_s = planned.config.num_steps * update.step_s
    return RunTime(
        step_s=update.step_s,
        run_s=run_s,
        samples_per_s=split.samples_per_step / update.step_s,
        communication_share=update.communication_share,
        ends_at=end_after(run_s, starts_at),
    )


def end_after(seconds: float, starts_at: datetime) -> datetime | None:
    """The local time so long after an aware one; None if it is beyond the calendar."""
    try:
        # Converted after the addition: the end may have another UTC offset than the start.
        return (starts_at + timedelta(seconds=seconds)).astimezone()
    except (OverflowError, ValueError, OSError):
        return None


def traffic_of(network: nn.Module, planned: PlannedRun) -> Traffic:
    """The communication volume of a step."""
    weights, config = [*network.parameters()], planned.config
    is_halved = config.accelerator.ddp.gradient_compression == "bf16"
    gradients = sum(each.nbytes for each in weights if each.requires_grad)
    num_passes = 2 if planned.strategy.fsdp.reshard_after_forward else 1
    return Traffic(
        gradient_bytes=gradients // (2 if is_halved else 1),
        weight_bytes=sum(
            LOW_PRECISION_BYTES * each.numel() if planned.is_rounded else each.nbytes
            for each in weights
        ),
        num_units=1 + len(shard_units(network, config.accelerator.fsdp.wrap_modules)),
        num_gathers=num_passes * planned.split.num_micro_batches,
    )


def read_benchmark(file: Path) -> StepBenchmark:
    """Read the results of `manyhands bench step --json=FILE`."""
    try:
        results = json.loads(file.read_text(encoding="utf-8"))
        seconds = {int(results["batch_size"]): float(results["median_ms"]) / 1e3}
        source = f"{results['device']}, step mode {results['mode']}, from {file}"
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise UserError(
            f"--benchmark={file} has no results of manyhands bench step ({error}). Write them with "
            "manyhands bench step --json=FILE"
        ) from None
    if not all(0 < number < math.inf for number in (*seconds, *seconds.values())):
        raise UserError(f"--benchmark={file} has a step time or batch size that is not positive")
    return StepBenchmark(seconds, source)
