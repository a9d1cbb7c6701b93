"""The order in which several datasets take turns: a pure function of the seed and the position.

Every block of positions gives each dataset its exact number of samples, shuffled by the seed. A
dataset's own samples come in the order they have without the others, so none is repeated before all
of its samples were drawn.
"""

from collections.abc import Sequence

import numpy as np

from manyhands.data.order import SampleOrder
from manyhands.rng import derive_seed

BLOCK = 4096
"""Block of positions over which every dataset gets its exact number of samples."""


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
        self.counts = shares_of(weights, BLOCK)

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
        turns = self._turns(block)
        rows = np.empty(stop - start, dtype=np.int64)
        for place, order in enumerate(self._orders):
            before = block * int(self.counts[place]) + int((turns[:start] == place).sum())
            own = turns[start:stop] == place
            drawn = order.indices(before, before + int(own.sum()))
            rows[own] = drawn + self._first_rows[place]
        return rows

    def _turns(self, block: int) -> np.ndarray:
        """Which dataset each position of a block draws from."""
        turns = np.repeat(np.arange(len(self.counts)), self.counts)
        shuffler = np.random.Generator(np.random.Philox(derive_seed(self._seed, "mixture", block)))
        return shuffler.permutation(turns)


def shares_of(weights: Sequence[float], total: int) -> np.ndarray:
    """Integers in the proportion of weights that sum to `total`; none is zero."""
    exact = np.asarray(weights, dtype=np.float64) / sum(weights) * total
    counts = np.floor(exact).astype(np.int64)
    # The largest remainders get what rounding down leaves.
    counts[np.argsort(counts - exact, kind="stable")[: total - int(counts.sum())]] += 1
    for place in np.flatnonzero(counts == 0):
        counts[np.argmax(counts)] -= 1
        counts[place] = 1
    return counts
