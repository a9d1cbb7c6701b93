"""The order in which samples are drawn: a pure function of the seed and the position.

Positions count samples from the first of the run onward, without end. Every epoch draws each sample
once, in the permutation LeRobot's sampler makes for it; batches may straddle the border between two
epochs, so all are full.
"""

import numpy as np
import torch

from manyhands.errors import DatasetError


class SampleOrder:
    """An endless stream of dataset rows, addressed by position."""

    def __init__(self, episode_bounds: np.ndarray, seed: int, drop_n_last_frames: int = 0) -> None:
        starts, ends = episode_bounds[:, 0], episode_bounds[:, 1] - drop_n_last_frames
        lengths = np.maximum(ends - starts, 0)
        self.num_samples = int(lengths.sum())
        if self.num_samples == 0:
            longest = int((episode_bounds[:, 1] - starts).max(initial=0))
            raise DatasetError(
                f"no sample is left: the policy leaves out the last {drop_n_last_frames} frames of "
                f"every episode, and the longest has {longest}; "
                "lower --policy.drop_n_last_frames or choose other --dataset.episodes"
            )
        self._seed = seed
        # Sample k of an episode is its row k; shifts turn a count over all episodes into a row.
        self._sample_ends = np.cumsum(lengths)
        self._shifts = starts - (self._sample_ends - lengths)
        self._latest: tuple[int, np.ndarray] | None = None

    def indices(self, start: int, stop: int) -> np.ndarray:
        """Dataset rows at positions [start, stop) of the stream."""
        first, last = start // self.num_samples, (stop - 1) // self.num_samples
        parts = [np.empty(0, dtype=np.int64)]
        for epoch in range(first, last + 1):
            begin = epoch * self.num_samples
            parts.append(self._permutation(epoch)[max(start - begin, 0) : max(stop - begin, 0)])
        return self._rows(np.concatenate(parts))

    def _rows(self, samples: np.ndarray) -> np.ndarray:
        episodes = np.searchsorted(self._sample_ends, samples, side="right")
        rows: np.ndarray = samples + self._shifts[episodes]
        return rows

    def _permutation(self, epoch: int) -> np.ndarray:
        if self._latest is None or self._latest[0] != epoch:
            state = np.random.SeedSequence([self._seed, epoch]).generate_state(1, np.uint64)
            generator = torch.Generator().manual_seed(int(state[0]))
            permutation = torch.randperm(self.num_samples, generator=generator)
            self._latest = (epoch, permutation.numpy())
        return self._latest[1]
