"""Prefetch settings, from a config and the memory of the machine."""

from manyhands.config.train import TrainConfig
from manyhands.data.cache.memory import available_ram
from manyhands.data.loading.stream import Loading
from manyhands.units import parse_bytes

DEFAULT_RAM_SHARE = 0.5
"""Default fraction of the available memory that data may use."""


def loading_of(
    config: TrainConfig, num_ranks_per_node: int = 1, pin_memory: bool = False
) -> Loading:
    """Prefetch settings of one rank, for training or for the held-out loss."""
    # Loader processes of training keep their batches while those of the held-out loss run.
    num_streams = 2 if config.eval_steps > 0 else 1
    return Loading(
        num_workers=config.num_workers,
        prefetch_factor=config.prefetch_factor,
        multiprocessing_context=config.dataloader_multiprocessing_context,
        pin_memory=pin_memory,
        num_ranks_per_node=num_ranks_per_node,
        max_ram_bytes=max_ram_of(config) // (num_ranks_per_node * num_streams),
    )


def max_ram_of(config: TrainConfig) -> int:
    """Bytes of this machine's memory that data may use."""
    if config.max_ram is not None:
        return parse_bytes(config.max_ram)
    return int(available_ram() * DEFAULT_RAM_SHARE)
