"""The order in which samples are drawn: a pure function of the seed and the position.

Positions count samples from the first of the run onward, without end. Every epoch draws each sample
once, in the permutation LeRobot's sampler makes for it; batches may straddle the border between two
epochs, so all are full.
"""

from collections.abc import Sequence

import numpy as np
import torch

from manyhands.errors import DatasetError
from manyhands.rng import derive_seed


class SampleOrder:
    """An endless stream of dataset rows, addressed by position."""

    def __init__(
        self,
        episode_bounds: np.ndarray,
        seed: int,
        drop_n_last_frames: int = 0,
        bad_rows: np.ndarray | None = None,
    ) -> None:
        starts, ends = episode_bounds[:, 0], episode_bounds[:, 1] - drop_n_last_frames
        lengths = np.maximum(ends - starts, 0)
        # Sample k of an episode is its row k; shifts turn a count over all episodes into a row.
        self._ends = np.cumsum(lengths)
        self._shifts = starts - (self._ends - lengths)
        self._good: np.ndarray | None = None  # The samples that are drawn; None: all
        self.num_samples = int(lengths.sum())  # Samples of one epoch
        self.num_bad = 0
        if bad_rows is not None and bad_rows.size:
            self._good = np.flatnonzero(~np.isin(self.rows(), bad_rows))
            self.num_bad = self.num_samples - len(self._good)
            self.num_samples = len(self._good)
        if self.num_bad and self.num_samples == 0:
            raise DatasetError(
                f"no samples left: all {self.num_bad} touch a bad frame. Run manyhands doctor "
                "with the dataset to see why"
            )
        if self.num_samples == 0:
            longest = int((episode_bounds[:, 1] - episode_bounds[:, 0]).max(initial=0))
            raise DatasetError(
                f"no samples left: the policy skips the last {drop_n_last_frames} frames of "
                f"every episode, and the longest has {longest}. Lower "
                "--policy.drop_n_last_frames or choose other --dataset.episodes"
            )
        self._seed = seed
        self._latest: tuple[int, np.ndarray] | None = None

    def indices(self, start: int, stop: int) -> np.ndarray:
        """Dataset rows at positions [start, stop) of the stream."""
        first, last = start // self.num_samples, (stop - 1) // self.num_samples
        parts = [np.empty(0, dtype=np.int64)]
        for epoch in range(first, last + 1):
            begin = epoch * self.num_samples
            parts.append(self._permutation(epoch)[max(start - begin, 0) : max(stop - begin, 0)])
        return self._rows_of(np.concatenate(parts))

    def rows(self) -> np.ndarray:
        """All rows that are ever drawn, ascending."""
        return self._rows_of(np.arange(self.num_samples))

    def _rows_of(self, samples: np.ndarray) -> np.ndarray:
        if self._good is not None:
            samples = self._good[samples]
        rows: np.ndarray = samples + self._shifts[np.searchsorted(self._ends, samples, "right")]
        return rows

    def _permutation(self, epoch: int) -> np.ndarray:
        if self._latest is None or self._latest[0] != epoch:
            state = np.random.SeedSequence([self._seed, epoch]).generate_state(1, np.uint64)
            generator = torch.Generator().manual_seed(int(state[0]))
            permutation = torch.randperm(self.num_samples, generator=generator)
            self._latest = (epoch, permutation.numpy())
        return self._latest[1]


# Every block of positions gives each dataset its exact number of samples, shuffled by the seed. A
# dataset's own samples come in the order they have without the others, so none is repeated before
# all of its samples were drawn.
BLOCK = 4096  # Block of positions over which every dataset gets its exact number of samples


class MixedOrder:
    """An endless stream of rows of a mixture, addressed by position."""

    def __init__(
        self,
        orders: Sequence[SampleOrder],
        weights: Sequence[float],
        first_rows: np.ndarray,
        seed: int,
    ) -> None:
        self.num_samples = sum(order.num_samples for order in orders)
        self._orders = orders
        self._first_rows = first_rows
        self._seed = seed
        self.counts = integer_weights(weights, BLOCK)

    def indices(self, start: int, stop: int) -> np.ndarray:
        """Rows of the mixture at positions [start, stop) of the stream."""
        parts = [np.empty(0, dtype=np.int64)]
        for block in range(start // BLOCK, (stop - 1) // BLOCK + 1):
            begin = block * BLOCK
            parts.append(self._in_block(block, max(start - begin, 0), min(stop - begin, BLOCK)))
        return np.concatenate(parts)

    def rows(self) -> np.ndarray:
        """All rows that are ever drawn, ascending."""
        parts = zip(self._orders, self._first_rows[: len(self._orders)], strict=True)
        return np.concatenate([order.rows() + first for order, first in parts])

    def _in_block(self, block: int, start: int, stop: int) -> np.ndarray:
        # Which dataset each position of the block draws from.
        turns = np.repeat(np.arange(len(self.counts)), self.counts)
        shuffler = np.random.Generator(np.random.Philox(derive_seed(self._seed, "mixture", block)))
        turns = shuffler.permutation(turns)
        rows = np.empty(stop - start, dtype=np.int64)
        for place, order in enumerate(self._orders):
            before = block * int(self.counts[place]) + int((turns[:start] == place).sum())
            own = turns[start:stop] == place
            drawn = order.indices(before, before + int(own.sum()))
            rows[own] = drawn + self._first_rows[place]
        return rows


def integer_weights(weights: Sequence[float], total: int) -> np.ndarray:
    """Integers in the proportion of weights that sum to `total`; none is zero."""
    exact = np.asarray(weights, dtype=np.float64) / sum(weights) * total
    counts = np.floor(exact).astype(np.int64)
    # The largest remainders get what rounding down leaves.
    counts[np.argsort(counts - exact, kind="stable")[: total - int(counts.sum())]] += 1
    for place in np.flatnonzero(counts == 0):
        counts[np.argmax(counts)] -= 1
        counts[place] = 1
    return counts
