"""Batches for one rank, from any position of the sample order onward."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from manyhands.data.batches import BatchSource, read_batch
from manyhands.data.loading.device_copy import MAX_COPIES, to_device
from manyhands.data.loading.forkserver import FORKSERVER, num_loaders
from manyhands.data.loading.leases import Leases
from manyhands.data.loading.slots import Slots, batch_bytes
from manyhands.data.loading.workers import NoWorkers, Readers, Workers
from manyhands.data.order import MixedOrder, SampleOrder
from manyhands.observe.phases import CopyTimer
from manyhands.parallel.collectives import even_slice
from manyhands.types import Batch

CPU = torch.device("cpu")
PREFETCH_RAM_FRACTION = 0.25  # The fraction of the loading memory that prefetched batches may use


@dataclass(frozen=True)
class BatchSplit:
    """The local batch of one rank; ranks differ by one sample at most."""

    rank: int
    num_ranks: int
    samples_per_step: int  # Samples of a global batch
    num_micro_batches: int = 1  # Micro-batches that every rank cuts its samples into

    @property
    def own(self) -> slice:
        """This rank's slice of a global batch."""
        return even_slice(self.samples_per_step, self.rank, self.num_ranks)

    @property
    def samples_per_rank(self) -> int:
        """Samples of this rank in a global batch."""
        return len(range(self.samples_per_step)[self.own])

    @property
    def most_per_rank(self) -> int:
        """Samples of a rank that has the most."""
        return -(-self.samples_per_step // self.num_ranks)

    @property
    def least_per_rank(self) -> int:
        """Samples of a rank that has the fewest."""
        return self.samples_per_step // self.num_ranks

    @property
    def micro_batch_size(self) -> int:
        """Samples of the largest micro-batch."""
        return -(-self.most_per_rank // self.num_micro_batches)


@dataclass(frozen=True, kw_only=True)
class LoaderOptions:
    """Loader settings; they change the speed of batches, never their content."""

    num_workers: int | None = None  # Loader processes per rank; None: from the available cores
    prefetch_factor: int = 4  # Batches each loader process prepares ahead
    multiprocessing_context: str = FORKSERVER
    pin_memory: bool = False  # Page-lock the memory of batches for asynchronous copies to a GPU
    num_ranks_per_node: int = 1  # Ranks that share this machine's cores
    max_ram_bytes: int | None = None  # Memory limit of this rank's loading; None sets no limit


@dataclass(frozen=True)
class SampleStream:
    """A rank's endless sequence of batches; the same for any number of loader processes."""

    source: BatchSource
    order: SampleOrder | MixedOrder
    split: BatchSplit
    loading: LoaderOptions
    device: torch.device = CPU  # Device of the batches
    copies: CopyTimer = field(default_factory=CopyTimer)  # Times copies to a GPU

    def starting_at(self, position: int) -> Iterator[Batch]:
        """Batches from a position of the order, which counts samples of all ranks together."""
        num_workers = resolve_num_workers(self.loading)
        return self._read(self._rows_from(position), self.split.samples_per_rank, num_workers)

    def rows_at(self, position: int) -> np.ndarray:
        """Rows of this rank in the global batch at a position."""
        own = self.split.own
        return self.order.indices(position + own.start, position + own.stop)

    def batches_over(self, rows: np.ndarray, batch_size: int) -> Iterator[Batch]:
        """Batches of the given rows, in their order; the last one has the remainder."""
        parts = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
        num_workers = min(resolve_num_workers(self.loading), len(parts))
        return self._read(iter(parts), batch_size, num_workers)

    def _rows_from(self, position: int) -> Iterator[np.ndarray]:
        while True:
            yield self.rows_at(position)
            position += self.split.samples_per_step

    def _read(
        self, rows: Iterator[np.ndarray], batch_size: int, num_workers: int
    ) -> Iterator[Batch]:
        """Loader processes start here, not at the first batch, and end with the iterator."""
        source, loading = self.source, self.loading
        if num_workers == 0 and self.device.type == "cpu":
            return (read_batch(source, part) for part in rows)
        layout = source.layout(batch_size)
        slots = Slots(
            layout, batch_size, resolve_num_slots(loading, num_workers, batch_bytes(layout))
        )
        readers: Readers = NoWorkers(source, slots)
        if num_workers:
            readers = Workers(source, slots, num_workers, loading.multiprocessing_context)
        if loading.pin_memory:
            slots.pin()
        return to_device(Leases(rows, slots, readers), self.device, self.copies)


def resolve_num_workers(loading: LoaderOptions) -> int:
    """Loader processes per rank."""
    return num_loaders(loading.num_workers, loading.num_ranks_per_node)


def resolve_num_slots(loading: LoaderOptions, num_workers: int, bytes_per_batch: int) -> int:
    """Batches in memory at a time; each loader process has one to fill, however short memory is."""
    prefetch = loading.prefetch_factor
    if loading.max_ram_bytes is not None:
        fitting = (
            PREFETCH_RAM_FRACTION * loading.max_ram_bytes / max(1, bytes_per_batch * num_workers)
        )
        prefetch = max(1, min(prefetch, int(fitting)))
    # Slots that are being copied to a GPU must leave one to fill.
    return max(num_workers * prefetch, MAX_COPIES + 1)
