"""Batch arithmetic of a run: samples per step and per rank, number of steps, learning rates.

A global batch is a number of samples: over any number of ranks and micro-batches, every rank has
its own samples and reads none twice. All ranks have the same number of micro-batches, because each
micro-batch is a collective.
"""

import math
from dataclasses import replace
from fractions import Fraction

from manyhands.checkpoint.snapshot import Position
from manyhands.config.train import ScalingConfig, TrainConfig
from manyhands.data.loading.stream import BatchSplit
from manyhands.errors import EnvironmentFault
from manyhands.parallel.world import resolve_accumulation


def split_batch(config: TrainConfig, rank: int, num_ranks: int) -> BatchSplit:
    """The local batch of a rank, from --global_batch_size or from --batch_size per rank."""
    num_micro_batches = resolve_accumulation(config)
    if config.global_batch_size is None:
        assert config.batch_size is not None
        return BatchSplit(
            rank, num_ranks, config.batch_size * num_ranks * num_micro_batches, num_micro_batches
        )
    if num_micro_batches > 1:
        raise EnvironmentFault(
            f"the launcher asks for {num_micro_batches} micro-batches per step, but "
            f"--global_batch_size={config.global_batch_size} and --batch_size determine them. "
            "Remove gradient_accumulation_steps from the launcher's flags or its config file"
        )
    if config.global_batch_size < num_ranks:
        raise EnvironmentFault(
            f"--global_batch_size={config.global_batch_size} leaves some of the {num_ranks} "
            "processes without a sample. Raise it, or start fewer processes"
        )
    whole = BatchSplit(rank, num_ranks, config.global_batch_size)
    most = config.batch_size or whole.most_per_rank
    split = replace(whole, num_micro_batches=-(-whole.most_per_rank // most))
    if split.least_per_rank < split.num_micro_batches:
        raise EnvironmentFault(
            f"--batch_size={most} splits {split.most_per_rank} samples of one process and "
            f"{split.least_per_rank} of another into different numbers of micro-batches. Raise "
            f"it to 2, or --global_batch_size to a multiple of {num_ranks} processes"
        )
    return split


def resolve_steps(
    config: TrainConfig, start: Position, num_samples: int, samples_per_step: int
) -> TrainConfig:
    """The config with the number of steps of its budget, including samples drawn so far.

    `num_samples` is the size of one epoch.
    """
    budget = config.samples
    if config.epochs is not None:
        # Exact as typed: 0.7 epochs of 10 samples are 7 samples; rounding must not make them 8.
        budget = math.ceil(Fraction(str(config.epochs)) * num_samples)
    if budget is None:
        return config
    left = max(0, budget - start.samples)
    return replace(config, steps=start.step + -(-left // samples_per_step))


def lr_factor(scaling: ScalingConfig, samples_per_step: int) -> float:
    """The factor that scales learning rates for an effective batch."""
    if scaling.lr == "none":
        return 1.0
    assert scaling.base_batch_size is not None
    ratio = samples_per_step / scaling.base_batch_size
    return math.sqrt(ratio) if scaling.lr == "sqrt" else ratio
