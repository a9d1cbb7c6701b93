"""The ways to spread a run over GPUs that are worth a look."""

from collections.abc import Iterator
from dataclasses import replace

from manyhands.config.parallelism import ParallelismConfig
from manyhands.config.plan import USUAL_GPUS, PlanConfig
from manyhands.config.train import TrainConfig

ALL = -1
"""As --parallelism.dp_shard: one copy of the weights for all."""


def topologies(plan: PlanConfig, config: TrainConfig) -> Iterator[tuple[int, TrainConfig]]:
    """Yield numbers of GPUs, each with the run as it would be spread over them."""
    asked = config.launch.num_processes
    numbers = plan.gpus or ([asked] if asked is not None else USUAL_GPUS)
    is_free = config.parallelism == ParallelismConfig()
    for number in numbers:
        yield number, config
        if is_free and number > 1:
            yield number, replace(config, parallelism=replace(config.parallelism, dp_shard=ALL))
