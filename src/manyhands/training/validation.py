"""The held-out loss: computed like the training loss, identical at any number of ranks.

Samples are split into chunks of a fixed size, and each sample has its own random draws. Chunks are
distributed over ranks round-robin; their sums are added in the order of the chunks.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from manyhands.data.dataset import Dataset
from manyhands.data.loading.stream import SampleStream
from manyhands.data.mixture import Mixture
from manyhands.draws.counter import CounterSource, derive_key
from manyhands.evaluation.open_loop import rank_turns
from manyhands.lerobot_format import names
from manyhands.observe.clock import Clock
from manyhands.parallel.world import World
from manyhands.policies.policy import Policy, evaluating
from manyhands.training.periods import Periods, StopPoll
from manyhands.training.step.ema import Weights
from manyhands.types import Batch, LossTerms, Network

HELD_OUT_LOSS = "held_out_loss"
PREDICTION_LOSS = "prediction_loss"
"""The loss of the actions that a policy predicts, if training computes it from others."""
CHUNK = 32  # Samples per forward pass.

Sums = dict[str, tuple[float, float, float]]
"""Total, number of entries and weight of every term of the loss."""


class ChunkLosses(NamedTuple):
    """The result of one chunk of samples."""

    num_samples: int
    sums: dict[str, Sums]  # By the suffix of the measured weights.


class HeldOut:
    """Held-out samples, and the loss of a policy on them."""

    def __init__(
        self, stream: SampleStream, rows: np.ndarray, policy: Policy, world: World, seed: int
    ) -> None:
        self._stream = stream
        self._rows = rows
        self._policy = policy
        self._world = world
        self._seed = seed

    def measure(self, weights: Weights) -> dict[str, float]:
        """Collective. The loss and its terms for each set of weights, named by their suffix.

        Samples are read once for all of them. A stop request returns no losses.
        """
        measured = self._chunk_losses(weights)
        if not measured:
            return {}
        losses = {
            f"{name}{ending}": value
            for ending in weights
            for name, value in chunk_means([each.sums[ending] for each in measured]).items()
        }
        return {**losses, "held_out_samples": sum(each.num_samples for each in measured)}

    def _chunk_losses(self, weights: Weights) -> list[ChunkLosses]:
        chunks = rank_chunks(len(self._rows), self._world.rank, self._world.size)
        rows = [self._rows[chunk * CHUNK : (chunk + 1) * CHUNK] for chunk in chunks]
        own: dict[int, ChunkLosses] = {}
        stop_poll = StopPoll(self._world)
        with evaluating(self._policy.network):
            batches = self._stream.batches_over(np.concatenate(rows), CHUNK)
            for chunk, batch in zip(chunks, batches, strict=True):
                if stop_poll.after_step():
                    return []
                sums = self._sums(batch, chunk * CHUNK, weights)
                own[chunk] = ChunkLosses(len(batch[names.ACTION]), sums)
        parts = self._world.gather(own)
        return [parts[chunk % len(parts)][chunk] for chunk in sorted(set().union(*parts))]

    def _sums(self, batch: Batch, first: int, weights: Weights) -> dict[str, Sums]:
        network, device = cast(Network, self._policy.network), self._policy.device
        inputs = self._policy.prepare(batch)
        positions = torch.arange(first, first + len(inputs[names.ACTION]), device=device)
        key = derive_key(self._seed, "held out").to(device)
        draws = self._policy.cast(network.draw(CounterSource(key, positions)))
        counts = network.entry_counts(inputs)
        sums = {}
        for ending, in_place in weights.items():
            # Autocast caches weights in low precision until it exits.
            with in_place(), self._world.autocast():
                sums[ending] = _read(network(inputs, draws), counts)
                if getattr(network, "has_latent", False):
                    predicted = network(inputs, {})["l1_loss"]
                    part = (float(predicted.total), float(counts["l1_loss"]), 0.0)
                    sums[ending][PREDICTION_LOSS] = part
        return sums


class Measure(Protocol):
    """What is measured on held-out episodes."""

    def measure(self, weights: Weights) -> dict[str, float]:
        """Collective. Metrics of each set of weights; none after a stop request."""


class Validator:
    """Measures periodically on held-out episodes; nothing without any."""

    def __init__(
        self, measures: Sequence[Measure], weights: Weights, periods: Periods, clock: Clock
    ) -> None:
        self._measures = measures
        self._weights = weights
        self._periods = periods
        self._clock = clock

    def scores_after(self, step: int) -> dict[str, float]:
        """Collective. The held-out metrics if they are scheduled after a step, else nothing."""
        found: dict[str, float] = {}
        if not self._periods.validate(step):
            return found
        with self._clock.timing("validate"):
            for each in self._measures:
                own = each.measure(self._weights)
                if not own:
                    # Without any metric, a resumed run measures all of them again.
                    return {}
                found |= own
        return found


def rank_chunks(num_samples: int, rank: int, num_ranks: int) -> list[int]:
    """The chunks of a rank: its own and, where others have more, the last one repeated."""
    return rank_turns(-(-num_samples // CHUNK), rank, num_ranks)


def _read(terms: LossTerms, counts: Mapping[str, Tensor]) -> Sums:
    return {
        name: (float(term.total), float(counts[name]), term.weight) for name, term in terms.items()
    }


def chunk_means(parts: list[Sums]) -> dict[str, float]:
    """The loss over all chunks and the means of its terms, with metric names."""
    means = {
        name: sum(part[name][0] for part in parts) / max(1, sum(part[name][1] for part in parts))
        for name in parts[0]
    }
    loss = sum(parts[0][name][2] * mean for name, mean in means.items())
    return {HELD_OUT_LOSS: loss} | {f"held_out_{name}": mean for name, mean in means.items()}


def held_out_rows(source: Dataset | Mixture, max_samples: int) -> np.ndarray:
    """The rows to measure: all, or the first ones of every task up to a maximum."""
    rows = np.arange(source.num_frames)
    if max_samples == 0:
        return rows
    tasks = _tasks_of_rows(source)
    per_task = max(1, max_samples // len(np.unique(tasks)))
    chosen = [np.flatnonzero(tasks == task)[:per_task] for task in np.unique(tasks)]
    return np.sort(np.concatenate(chosen))


def _tasks_of_rows(source: Dataset | Mixture) -> np.ndarray:
    """A number for the task of every row; tasks of different datasets are different ones."""
    parts = source.parts if isinstance(source, Mixture) else [source]
    numbers = []
    for place, part in enumerate(parts):
        frames = np.concatenate([np.arange(first, end) for first, end in part.frame_bounds])
        numbers.append(part.column_values(names.TASK_INDEX, frames) * len(parts) + place)
    return np.concatenate(numbers)
