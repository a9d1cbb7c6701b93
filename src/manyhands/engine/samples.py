"""Batches of a dataset of one's own, the same global batches on any number of ranks.

Every epoch has each sample once: its last batch is shorter, nothing is repeated or dropped.
"""

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from manyhands.data.order import SampleOrder
from manyhands.errors import DatasetError
from manyhands.parallel.collectives import even_slice
from manyhands.rng import derive_seed
from manyhands.training.step.learner import seed_host_rng

Collate = Callable[[list[Any]], Any]


class LocalBatch(NamedTuple):
    """The samples of this rank in a global batch."""

    values: Any  # What the dataset's samples are collated to, on the device of this rank.
    weights: Tensor  # One per sample: zero for one that only fills a batch without samples.
    num_samples: int  # Samples of the global batch.


class Draw(NamedTuple):
    """A row of the dataset, drawn at a position of the data order."""

    position: int
    row: int


@dataclass(frozen=True)
class EpochSampler:
    """Draws this rank's samples of every global batch, from any position to the epoch's end."""

    order: SampleOrder
    global_batch_size: int
    rank: int
    num_ranks: int
    num_micro_batches: int = 1

    def global_batches(self, position: int) -> list[range]:
        """The positions of each global batch until the end of the epoch of a position."""
        size, num_samples = self.global_batch_size, self.order.num_samples
        end = (position // num_samples + 1) * num_samples
        return [range(start, min(start + size, end)) for start in range(position, end, size)]

    def draws(self, batch: range) -> list[Draw]:
        """This rank's samples of a global batch, and one more per micro-batch without any."""
        rows, own = self.order.indices(batch.start, batch.stop), self._own(batch)
        found = [Draw(*each) for each in zip(batch[own], rows[own].tolist(), strict=True)]
        num_missing = max(0, self.num_micro_batches - len(found))
        return found + [Draw(batch.start, int(rows[0]))] * num_missing

    def weights(self, batch: range) -> Tensor:
        """One for every sample of this rank that counts, zero for the others."""
        num_own = len(batch[self._own(batch)])
        return (torch.arange(max(num_own, self.num_micro_batches)) < num_own).float()

    def _own(self, batch: range) -> slice:
        return even_slice(len(batch), self.rank, self.num_ranks)


class SeededSamples(Dataset[Any]):
    """Samples whose random transforms depend on the position of a draw, and on nothing else."""

    def __init__(self, dataset: Dataset[Any], seed: int) -> None:
        self._dataset = dataset
        self._seed = seed
        # Seeding takes longer than reading a tensor, which draws nothing.
        self._is_random = not isinstance(dataset, TensorDataset)

    def __getitem__(self, draw: Draw) -> Any:
        if self._is_random:
            seed = derive_seed(self._seed, "sample", draw.position)
            torch.manual_seed(seed)
            seed_host_rng(seed)
        return self._dataset[draw.row]


@dataclass(frozen=True)
class Loading:
    """How samples become batches in memory."""

    num_workers: int = 0
    collate: Collate | None = None
    pin_memory: bool = False

    def batches(self, dataset: Dataset[Any], draws: list[list[Draw]], seed: int) -> Iterator[Any]:
        """The collated samples of each list of draws."""
        loader: DataLoader[Any] = DataLoader(
            SeededSamples(dataset, seed),
            batch_sampler=draws,
            num_workers=self.num_workers,
            collate_fn=self.collate or collate_tuples,
            pin_memory=self.pin_memory,
        )
        return iter(loader)


def collate_tuples(samples: list[Any]) -> Any:
    """Collate as PyTorch does; tuples stay tuples, so that a list has an entry per sample."""
    return with_tuples(default_collate(samples))


def with_tuples(values: Any) -> Any:
    """The same values with a tuple for each list of batched values."""
    if isinstance(values, dict):
        return {name: with_tuples(value) for name, value in values.items()}
    is_batched = isinstance(values, list) and not isinstance(values[0], str)
    return tuple(map(with_tuples, values)) if is_batched else values


def build_order(dataset: Dataset[Any], seed: int) -> SampleOrder:
    """The endless order in which samples of a dataset are drawn, each once per epoch."""
    return SampleOrder(np.array([[0, dataset_size(dataset)]]), seed)


def dataset_size(dataset: Dataset[Any]) -> int:
    """The number of samples of a dataset; rejects one that is empty or cannot be indexed."""
    if not isinstance(dataset, Sized) or not hasattr(dataset, "__getitem__"):
        raise DatasetError(
            f"{type(dataset).__name__} has no length or no index. Use a dataset with __len__ and "
            "__getitem__: an exact order needs to know every sample"
        )
    if len(dataset) == 0:
        raise DatasetError(f"the dataset ({type(dataset).__name__}) has no samples")
    return len(dataset)
