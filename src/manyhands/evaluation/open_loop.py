"""Open-loop evaluation: actions predicted from recorded observations, against recorded actions.

Samples form batches of one size in their order, whichever rank predicts them, and a sample has
noise of its own. Errors are added in the order of the batches: the same numbers on any number of
ranks.
"""

import numpy as np
import torch

from manyhands.data.dataset import Dataset
from manyhands.draws.counter import CounterSource, derive_key
from manyhands.evaluation.action_errors import ActionErrors, action_errors, added
from manyhands.evaluation.actor import predicted_chunks, rows_per_batch
from manyhands.lerobot_format import names
from manyhands.observe.console import OnProgress
from manyhands.parallel.world import World
from manyhands.policies.policy import Policy
from manyhands.types import Batch

STREAM = "open loop"


def unnoticed(done: int, total: int) -> None:
    """Progress that is not shown."""


class OpenLoop:
    """A policy beside a dataset that is read with the policy's windows."""

    def __init__(self, policy: Policy, dataset: Dataset, seed: int) -> None:
        self._policy = policy
        self._dataset = dataset
        self._key = derive_key(seed, STREAM).to(policy.device)
        self._num_rows = rows_per_batch(policy.config, policy.device)

    def batches(self, rows: np.ndarray) -> list[np.ndarray]:
        """The rows of every batch."""
        size = self._num_rows
        return [rows[first : first + size] for first in range(0, len(rows), size)]

    def errors(self, rows: np.ndarray) -> ActionErrors:
        """The errors of one batch."""
        batch = self._read(rows)
        predicted = self._predict(rows, batch)
        first = self._policy.config.action_offsets.index(0)
        window = slice(first, first + predicted.shape[1])
        recorded, is_pad = (
            batch[key][: len(rows), window].numpy()
            for key in (names.ACTION, names.ACTION + names.PAD_SUFFIX)
        )
        return action_errors(predicted, recorded, is_pad)

    def chunks(self, rows: np.ndarray) -> np.ndarray:
        """The predicted actions (samples, steps, joints) for any number of rows."""
        parts = [self._predict(each, self._read(each)) for each in self.batches(rows)]
        return np.concatenate(parts)

    def _read(self, rows: np.ndarray) -> Batch:
        """A batch of the fixed size; the last row fills it up."""
        return self._dataset.batch(np.pad(rows, (0, self._num_rows - len(rows)), "edge"))

    def _predict(self, rows: np.ndarray, batch: Batch) -> np.ndarray:
        # A policy with a rename map renames what arrives; the dataset has done so already.
        arriving = self._policy.arriving_names
        observation = {key: batch[name] for name, key in arriving.items() if name in batch}
        if names.TASK in batch:
            observation[names.TASK] = batch[names.TASK]
        positions = torch.zeros(self._num_rows, dtype=torch.int64)
        positions[: len(rows)] = torch.from_numpy(frames_of(self._dataset, rows))
        source = CounterSource(self._key, positions.to(self._key.device))
        return predicted_chunks(self._policy, observation, source)[: len(rows)].numpy()


def open_loop_errors(
    open_loop: OpenLoop, rows: np.ndarray, world: World, on_progress: OnProgress = unnoticed
) -> ActionErrors:
    """Collective. The errors of a policy over samples of a dataset."""
    own: dict[int, ActionErrors] = {}
    on_progress = on_progress if world.is_main else unnoticed
    # A sample that cannot be read ends all ranks.
    world.on_every_rank(
        lambda: own.update(rank_errors(open_loop, rows, world.rank, world.size, on_progress))
    )
    return joined_errors(world.gather(own))


def rank_errors(
    open_loop: OpenLoop,
    rows: np.ndarray,
    rank: int,
    num_ranks: int,
    on_progress: OnProgress = unnoticed,
) -> dict[int, ActionErrors]:
    """The errors of a rank's batches by their place among all."""
    batches = open_loop.batches(rows)
    places = rank_turns(len(batches), rank, num_ranks)
    found = {}
    for number, place in enumerate(places, start=1):
        found[place] = open_loop.errors(batches[place])
        on_progress(number, len(places))
    return found


def rank_turns(num_batches: int, rank: int, num_ranks: int) -> list[int]:
    """The batches of a rank: its own and, where others have more, the last one repeated."""
    # Sharded weights need the same number of passes on all ranks; repeated ones are dropped.
    num_turns = -(-num_batches // num_ranks)
    return [min(rank + turn * num_ranks, num_batches - 1) for turn in range(num_turns)]


def joined_errors(parts: list[dict[int, ActionErrors]]) -> ActionErrors:
    """The errors of all ranks, every batch once."""
    by_place = {place: errors for part in parts for place, errors in part.items()}
    return added([by_place[place] for place in sorted(by_place)])


def sample_rows(dataset: Dataset, stride: int, max_samples: int) -> np.ndarray:
    """Every n-th frame of each episode; of more than the maximum, as many spread evenly."""
    rows = np.concatenate([np.arange(first, end, stride) for first, end in dataset.episode_bounds])
    if max_samples == 0 or len(rows) <= max_samples:
        return rows
    return rows[np.arange(max_samples) * len(rows) // max_samples]


def frames_of(dataset: Dataset, rows: np.ndarray) -> np.ndarray:
    """The frames of rows in the complete dataset."""
    places = np.searchsorted(dataset.episode_bounds[:, 1], rows, side="right")
    starts = dataset.frame_bounds[places, 0] - dataset.episode_bounds[places, 0]
    return np.asarray(rows + starts, dtype=np.int64)
