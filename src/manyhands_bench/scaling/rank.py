"""One measured process: runs and times real steps on one batch."""

import os
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import nn

from manyhands.checkpoint.snapshot import Position
from manyhands.config.train import TrainConfig
from manyhands.data.loading.stream import SampleStream
from manyhands.parallel.engine import build_engine
from manyhands.parallel.no_op_group import no_op_backend
from manyhands.parallel.sharded_engine import shard_units
from manyhands.parallel.world import World, joined_world
from manyhands.plan.communication import Traffic
from manyhands.training.setup.assemble import build_initial_policy
from manyhands.training.setup.batch import resolve_steps, split_batch
from manyhands.training.setup.data import loader_options, open_training_data
from manyhands.training.step.kernel_choice import kernel_settings
from manyhands.training.step.learner import Learner
from manyhands.training.step.train_step import TrainStep
from manyhands.types import Batch
from manyhands_bench.timing import step_times


@dataclass(frozen=True, kw_only=True)
class RankRequest:
    """The request to a measured process."""

    num_steps: int
    warm_up: int
    threads: int
    exchanges: bool
    """Whether processes communicate; else each computes alone."""


@dataclass(frozen=True, kw_only=True)
class RankReport:
    """The result of a measured process."""

    rank: int
    num_ranks: int
    pid: int
    device: str
    precision: str
    strategy: str
    threads: int
    step_s: list[float]
    traffic: Traffic


def measure_rank(config: TrainConfig, request: RankRequest) -> RankReport:
    """Collective over the ranks a launcher started. Time the steps of a config."""
    torch.set_num_threads(request.threads)
    backend = None if request.exchanges else no_op_backend()
    with kernel_settings(config.cudnn_deterministic), joined_world(config, backend) as world:
        learner, batch, traffic = prepared(config, world)

        def update(step: int) -> None:
            world.watch.begin("update")
            learner.train_step(batch, step)

        step_times(update, range(request.warm_up), world.device)
        world.barrier()
        last = request.warm_up + request.num_steps
        times = step_times(update, range(request.warm_up, last), world.device)
        # Ranks that finish first wait, so that all are measured side by side.
        world.barrier()
        placement = world.placements[world.rank]
        return RankReport(
            rank=world.rank,
            num_ranks=world.size,
            pid=os.getpid(),
            device=placement.device if world.device.type == "cpu" else placement.name,
            precision=world.precision,
            strategy=world.strategy.kind.value,
            threads=torch.get_num_threads(),
            step_s=times,
            traffic=traffic,
        )


def prepared(config: TrainConfig, world: World) -> tuple[Learner, Batch, Traffic]:
    """Collective. The learner of a run, and this rank's slice of the first batch."""
    config = replace(config.without_cache(), num_workers=0)
    data, config = open_training_data(config, world.on_main)
    share = split_batch(config, world.rank, world.size)
    config = resolve_steps(config, Position(), data.order.num_samples, share.samples_per_step)
    policy, _ = build_initial_policy(config, data.stats, world.device)
    traffic = traffic_of(policy.network, config, world)
    engine = build_engine(world, share.num_micro_batches, config.accelerator.ddp)
    learner = Learner(TrainStep(policy, config, engine, world, share), config)
    loading = loader_options(config, world.num_local_ranks, world.device.type == "cuda")
    stream = SampleStream(data.source, data.order, share, loading, world.device)
    with closing(cast(Generator[Batch], stream.starting_at(0))) as batches:
        return learner, next(batches), traffic


def traffic_of(network: nn.Module, config: TrainConfig, world: World) -> Traffic:
    """The communication volume of training a network."""
    weights = [*network.parameters()]
    is_rounded = world.precision == "bf16" and world.device.type == "cuda"
    return Traffic(
        gradient_bytes=sum(each.nbytes for each in weights if each.requires_grad),
        weight_bytes=sum(2 * each.numel() if is_rounded else each.nbytes for each in weights),
        num_units=1 + len(shard_units(network, config.accelerator.fsdp.wrap_modules)),
    )
