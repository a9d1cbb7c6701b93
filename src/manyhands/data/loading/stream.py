"""Batches for one rank, from any position of the sample order onward."""

import atexit
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from manyhands.cores import num_cores
from manyhands.data.dataset import Dataset
from manyhands.data.order import SampleOrder
from manyhands.errors import UserError
from manyhands.types import Batch

_MAX_AUTOMATIC_WORKERS = 4


@dataclass(frozen=True)
class Share:
    """The part of every global batch that one rank reads."""

    rank: int
    num_ranks: int
    samples_per_rank: int

    @property
    def samples_per_step(self) -> int:
        """Samples of a global batch."""
        return self.samples_per_rank * self.num_ranks


@dataclass(frozen=True, kw_only=True)
class Loading:
    """How batches are prepared; it changes how fast they come, never what they hold."""

    num_workers: int | None = None
    """Loader processes per rank; None chooses from the cores at hand."""
    prefetch_factor: int = 4
    """Batches each loader process prepares ahead."""
    multiprocessing_context: str = "forkserver"
    pin_memory: bool = False
    num_ranks_per_node: int = 1
    """Ranks that share this machine's cores."""


@dataclass(frozen=True)
class SampleStream:
    """A rank's endless sequence of batches; the same for any number of loader processes."""

    dataset: Dataset
    order: SampleOrder
    share: Share
    loading: Loading

    def starting_at(self, position: int) -> Iterator[Batch]:
        """Batches from a position of the order, which counts samples of all ranks together."""
        num_workers = resolve_num_workers(self.loading)
        # Processes forked off a server find everything imported: they start in an instant.
        multiprocessing.set_forkserver_preload([__name__])
        reader: Any = _BatchReader(self.dataset)
        loader: DataLoader[Any] = DataLoader(
            reader,
            batch_size=None,
            sampler=_RowSource(self.order, self.share, position),
            num_workers=num_workers,
            collate_fn=_unchanged,
            pin_memory=self.loading.pin_memory,
            prefetch_factor=self.loading.prefetch_factor if num_workers else None,
            multiprocessing_context=self.loading.multiprocessing_context if num_workers else None,
            worker_init_fn=_prepare_worker,
            # The loader draws a seed for its processes; not from the generator training draws from.
            generator=torch.Generator(),
        )
        # The processes start here, not at the first batch, and end with the returned iterator.
        return _raising(iter(loader))


def resolve_num_workers(loading: Loading) -> int:
    """Loader processes per rank; by default each rank keeps a core for training."""
    if loading.num_workers is not None:
        return loading.num_workers
    spare = num_cores() // loading.num_ranks_per_node - 1
    return max(0, min(_MAX_AUTOMATIC_WORKERS, spare))


@dataclass(frozen=True)
class _RowSource:
    """The rows of this rank's batches, one array each."""

    order: SampleOrder
    share: Share
    position: int

    def __iter__(self) -> Iterator[np.ndarray]:
        start = self.position + self.share.rank * self.share.samples_per_rank
        while True:
            yield self.order.indices(start, start + self.share.samples_per_rank)
            start += self.share.samples_per_step


@dataclass(frozen=True)
class _BatchReader:
    """Batches by their rows; a fault travels as a value, so that its message arrives whole."""

    dataset: Dataset

    def __getitem__(self, rows: np.ndarray) -> Batch | UserError:
        try:
            return self.dataset.batch(rows)
        except UserError as error:
            return error


def _raising(results: Iterator[Batch | UserError]) -> Iterator[Batch]:
    result = next(results)
    while not isinstance(result, UserError):
        yield result
        result = next(results)
    # The processes end here; the error's traceback would keep them waiting for more work.
    del results
    raise result


def _unchanged(batch: Any) -> Any:
    return batch


def _prepare_worker(_worker: int) -> None:
    """Make a loader process end when its rank wants it to: no sooner, and without a crash."""
    # A regular exit aborts the process if its queue's thread is just then inside torch.
    atexit.register(os._exit, 0)
    if sys.platform == "linux":
        # Signals may be sent to the whole job: the rank still needs batches until it has saved.
        for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(ignored, signal.SIG_IGN)
        # A blocked signal is not lost to being ignored: the thread below still receives it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_end_when_the_rank_says, daemon=True).start()


def _end_when_the_rank_says() -> None:
    rank = multiprocessing.parent_process()
    while rank and signal.sigwaitinfo({signal.SIGTERM}).si_pid != rank.pid:
        pass
    os._exit(0)
