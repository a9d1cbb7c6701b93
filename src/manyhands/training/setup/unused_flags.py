"""Flags that have no effect, or hardly one, on this machine and this data."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from manyhands.checkpoint.store import read_position
from manyhands.config.policies.base import ChunkPolicyConfig, PolicyConfig, visual_features
from manyhands.config.sections.optim import CosineDecayWithWarmupConfig
from manyhands.config.sections.profile import profiled_steps
from manyhands.config.train import TrainConfig
from manyhands.config.unused_flags import unused_flag_notes, unused_notes
from manyhands.data.loading.stream import BatchSplit
from manyhands.parallel.precision import has_fast_bf16
from manyhands.parallel.strategy import StrategyKind
from manyhands.parallel.world import World
from manyhands.training.setup.data import TrainingData, datasets_of

DDP_FLAGS = tuple(
    f"accelerator.ddp.{name}"
    for name in ("gradient_as_bucket_view", "static_graph", "gradient_compression")
)
CAMERA_FLAGS = ("dataset.image_size", "dataset.use_imagenet_stats", "dataset.depth_output_unit")


def start_notes(
    config: TrainConfig, world: World, data: TrainingData, split: BatchSplit
) -> list[str]:
    """Notes for the banner of a run: flags that do not do what they promise."""
    return [
        *unused_flag_notes(config),
        *device_notes(config, world),
        *process_notes(config, world),
        *length_notes(config),
        *data_notes(config, data, split),
    ]


def device_notes(config: TrainConfig, world: World) -> Iterator[str]:
    """Yield notes on flags that need a GPU."""
    if world.device.type == "cuda":
        return
    name = "a CPU" if world.device.type == "cpu" else "an Apple GPU"
    if world.device.type == "mps":
        yield "NOTE: Apple GPUs (mps) are untested. Compare the loss with --policy.device=cpu"
    if world.precision == "bf16" and world.device.type == "cpu" and not has_fast_bf16():
        yield (
            "WARNING: this CPU emulates bf16, which is many times slower than float32. Set "
            "--accelerator.mixed_precision=no"
        )
    if config.step.mode in ("graph", "compile"):
        yield f"NOTE: --step.mode={config.step.mode} has no effect on {name}: steps run eagerly"
    yield from unused_notes(config, ("step.compile_min_left_s",), f"on {name}")
    copies = config.parallelism.gpus_per_process
    if copies > 1:
        yield (
            f"NOTE: --parallelism.gpus_per_process={copies} on {name}: one device computes all "
            "copies in turn. Remove it"
        )


def process_notes(config: TrainConfig, world: World) -> Iterator[str]:
    """Yield notes on flags that need several processes."""
    if world.strategy.kind is not StrategyKind.DDP:
        yield from unused_notes(config, DDP_FLAGS, f"with the strategy {world.strategy.kind.value}")
    if world.size == 1:
        yield from unused_notes(config, ("parallelism.dp_shard",), "with one process")
        yield from unused_notes(config, ("launch.main_port",), "with one process")


def length_notes(config: TrainConfig) -> Iterator[str]:
    """Yield notes on flags about steps that the run never reaches."""
    steps, schedule = config.num_steps, config.scheduler
    warm_up = 0 if schedule is None else schedule.num_warmup_steps or 0
    # That schedule shortens its warm-up with the run.
    if warm_up >= steps and not isinstance(schedule, CosineDecayWithWarmupConfig):
        yield (
            f"NOTE: --scheduler.num_warmup_steps={warm_up} is not below the {steps} steps of the "
            "run, which never reaches its learning rate"
        )
    if config.ema.enable and config.ema.update_after_step >= steps:
        yield (
            f"NOTE: --ema.update_after_step={config.ema.update_after_step} is not below the "
            f"{steps} steps of the run: nothing is averaged"
        )
    yield from _profile_notes(config)


def _profile_notes(config: TrainConfig) -> Iterator[str]:
    """Yield a note if none of the steps to profile are those of this process."""
    start = read_position(Path(str(config.resume))).step if config.resumes else 0
    profiled = profiled_steps(config.profile, start)
    if profiled is None:
        return
    if profiled.start > config.num_steps:
        reason = f"the run has {config.num_steps} steps"
    elif profiled.stop <= start + 1:
        reason = f"the run resumes from step {start}"
    else:
        return
    yield f"NOTE: --profile={config.profile} has no effect: {reason}"


def data_notes(config: TrainConfig, data: TrainingData, split: BatchSplit) -> Iterator[str]:
    """Yield notes on flags that do not suit the data."""
    policy = config.policy
    assert policy is not None
    if not visual_features(policy):
        yield from unused_notes(config, CAMERA_FLAGS, "without cameras")
    num_samples = data.order.num_samples
    if split.samples_per_step > num_samples:
        yield (
            f"NOTE: a step has {split.samples_per_step} samples, the dataset only {num_samples}: "
            "every step repeats some. Lower --batch_size"
        )
    yield from _chunk_notes(policy, data)


def _chunk_notes(policy: PolicyConfig, data: TrainingData) -> Iterator[str]:
    """Yield a note if most episodes are shorter than a chunk, which is then mostly padding."""
    flag = "chunk_size" if isinstance(policy, ChunkPolicyConfig) else "horizon"
    length = getattr(policy, flag, None)
    bounds = np.concatenate([each.episode_bounds for each in datasets_of(data.source)])
    lengths = bounds[:, 1] - bounds[:, 0]
    if length is None or np.median(lengths) >= length:
        return
    num_shorter = int((lengths < length).sum())
    yield (
        f"NOTE: --policy.{flag}={length} exceeds {num_shorter} of {len(lengths)} episodes, whose "
        f"median has {np.median(lengths):g} frames: chunks are mostly padding. Lower it"
    )
