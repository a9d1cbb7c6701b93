"""How batches are read ahead, as a config and the machine say."""

from manyhands.config.train import TrainConfig
from manyhands.data.cache.memory import available_ram
from manyhands.data.loading.stream import Loading
from manyhands.units import parse_bytes

DEFAULT_RAM_SHARE = 0.5
"""The part of the memory at hand that data may take where nobody set a limit."""


def loading_of(
    config: TrainConfig, num_ranks_per_node: int = 1, pin_memory: bool = False
) -> Loading:
    """How one of the ranks of a machine reads ahead, for training or for the held-out loss."""
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
    """Bytes of this machine's memory that data may take."""
    if config.max_ram is not None:
        return parse_bytes(config.max_ram)
    return int(available_ram() * DEFAULT_RAM_SHARE)
