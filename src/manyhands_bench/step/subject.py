"""The measured run, without its loop, and a batch on the device."""

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from manyhands.checkpoint.snapshot import Position
from manyhands.config.train import TrainConfig
from manyhands.data.loading.stream import BatchSplit, SampleStream
from manyhands.parallel.world import World
from manyhands.policies.frozen_encoder import FrozenEncoder
from manyhands.policies.synthetic import synthetic_batch, synthetic_stats, with_synthetic_features
from manyhands.training.setup.assemble import build_initial_policy
from manyhands.training.setup.batch import resolve_steps, split_batch
from manyhands.training.setup.data import TrainingData, loader_options, open_training_data
from manyhands.training.setup.vision_tokens import with_vision_tokens
from manyhands.types import Batch, Stats
from manyhands_bench.config import BenchStepConfig

Shapes = dict[str, tuple[str, tuple[int, ...]]]
"""Type and shape of tensors, by name."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The state of a run that steps need."""

    config: TrainConfig
    """With the features of its policy."""
    stats: Stats
    split: BatchSplit
    batch: Batch
    recorded: Shapes
    """Shapes of the same batch before its images were encoded."""
    data: TrainingData | None
    """None for synthetic data."""


def subject_of(bench: BenchStepConfig, config: TrainConfig, world: World) -> Subject:
    """The run of a config on its dataset, or on synthetic data if it names none."""
    assert config.policy is not None
    split = split_batch(config, world.rank, world.size)
    # Pretrained weights take time to download, and do not affect step times.
    config = replace(config, policy=config.policy.without_downloads())
    if not config.dataset.is_named:
        return made_up_subject(bench, config, split, world)
    config = config if bench.with_loader else config.without_cache()
    data, config = open_training_data(config, world.on_main)
    config = resolve_steps(config, Position(), data.order.num_samples, split.samples_per_step)
    recorded = first_batch(data, replace(config, num_workers=0), world, split)
    if config.cache.vision_tokens and bench.with_loader:
        policy, _ = build_initial_policy(config, data.stats, world.device)
        data = with_vision_tokens(data, policy, config, world)
    is_encoded = data.tokens is not None or not bench.with_loader
    return Subject(
        config=config,
        stats=data.stats,
        split=split,
        batch=as_trained(recorded, config, data.stats, world) if is_encoded else recorded,
        recorded=tensor_shapes(recorded),
        data=data,
    )


def made_up_subject(
    bench: BenchStepConfig, config: TrainConfig, split: BatchSplit, world: World
) -> Subject:
    """A run on synthetic data; one batch is an epoch."""
    assert config.policy is not None
    policy, num_samples = with_synthetic_features(config.policy, bench), split.samples_per_step
    config = resolve_steps(replace(config, policy=policy), Position(), num_samples, num_samples)
    batch, stats = (
        synthetic_batch(policy, split.samples_per_rank, world.device),
        synthetic_stats(policy),
    )
    return Subject(
        config=config,
        stats=stats,
        split=split,
        batch=as_trained(batch, config, stats, world),
        recorded=tensor_shapes(batch),
        data=None,
    )


def as_trained(batch: Batch, config: TrainConfig, stats: Stats, world: World) -> Batch:
    """A batch as steps read it: with cached tokens instead of images, if enabled."""
    if not config.cache.vision_tokens:
        return batch
    policy, _ = build_initial_policy(config, stats, world.device)
    with autocast_of(world):
        return FrozenEncoder(policy).with_tokens(batch)


def stream_of(
    data: TrainingData, config: TrainConfig, world: World, split: BatchSplit
) -> SampleStream:
    """Batches as training reads them."""
    loading = loader_options(config, world.num_local_ranks, world.device.type == "cuda")
    return SampleStream(data.source, data.order, split, loading, world.device)


def first_batch(data: TrainingData, config: TrainConfig, world: World, split: BatchSplit) -> Batch:
    """The batch of the first step, on the device."""
    stream = stream_of(data, config, world, split)
    with closing(cast(Generator[Batch], stream.starting_at(0))) as batches:
        return next(batches)


def first_samples(batch: Batch, number: int) -> Batch:
    """The first samples of a batch."""
    return {name: values[:number] for name, values in batch.items()}


def tensor_shapes(batch: Batch) -> Shapes:
    """Type and shape of every tensor of a batch, independent of the torch version."""
    return {
        name: (str(value.dtype).removeprefix("torch."), tuple(value.shape))
        for name, value in batch.items()
        if isinstance(value, Tensor)
    }


def autocast_of(world: World) -> torch.autocast:
    """Autocast in the precision of a run."""
    dtype = torch.float16 if world.precision == "fp16" else torch.bfloat16
    return torch.autocast(world.device.type, dtype, enabled=world.precision != "no")
