"""Predicts the actions of many episodes at once, each as if it were alone.

The batch has the same shape whatever the number of episodes, and an episode always has the same
row: its actions depend on its own observations and noise alone, bit for bit.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from manyhands.config.policies.base import PolicyConfig, visual_features
from manyhands.draws.counter import CounterSource, derive_key
from manyhands.policies.policy import Policy
from manyhands.sim.environment import Observation
from manyhands.types import Batch, Network

ROWS_ON_CPU, MIN_ROWS_ON_GPU, MAX_ROWS_ON_GPU = 8, 16, 128
PIXELS_ON_GPU = 64 * 2 * 480 * 640
"""Pixels of all rows, so that predictions fit into the memory of ordinary GPUs."""
GROUPS_ON_CPU, GROUPS_ON_GPU = 1, 2
"""A GPU predicts for one group while environments act for the other; a CPU would do both slower."""
STREAM = "evaluation"


class ChunkRequest(NamedTuple):
    """An episode that needs actions."""

    episode: int
    step: int
    """Steps executed so far."""
    observation: Observation
    """Arrays (observations, ...), the latest last."""


class Actor:
    """A policy with a batch of fixed size."""

    def __init__(self, policy: Policy, seed: int, instruction: str) -> None:
        self.device = policy.device
        self.num_rows = rows_per_batch(policy.config, self.device)
        self.num_groups = GROUPS_ON_GPU if self.device.type == "cuda" else GROUPS_ON_CPU
        self._policy = policy
        self._key = derive_key(seed, STREAM).to(self.device)
        self._instruction = instruction

    def row_of(self, episode: int) -> int:
        """The row of an episode in every batch, whichever rank runs it beside whichever others."""
        return episode % self.num_rows

    def chunks(self, requests: Sequence[ChunkRequest], max_steps: int) -> list[Tensor]:
        """Raw actions (1, steps, action) for each request of one group."""
        rows = [self.row_of(request.episode) for request in requests]
        positions = torch.zeros(self.num_rows, dtype=torch.int64)
        for row, request in zip(rows, requests, strict=True):
            positions[row] = request.episode * max_steps + request.step
        source = CounterSource(self._key, positions.to(self._key.device))
        batch = self._batch(rows, [request.observation for request in requests])
        chunks = predicted_chunks(self._policy, batch, source)
        return [chunks[row : row + 1] for row in rows]

    def _batch(self, rows: Sequence[int], observations: Sequence[Observation]) -> Batch:
        batch: Batch = {"task": [self._instruction] * self.num_rows}
        for name, first in observations[0].items():
            values = np.zeros((self.num_rows, *first.shape), dtype=first.dtype)
            values[rows] = [observation[name] for observation in observations]
            batch[name] = self._as_read(torch.from_numpy(values))
        return batch

    def _as_read(self, values: Tensor) -> Tensor:
        # Images come with their channels last; (rows, observations, height, width, channels).
        values = values.movedim(-1, -3) if values.ndim == 5 else values
        return values[:, -1] if self._policy.config.observation_offsets is None else values


def rows_per_batch(config: PolicyConfig, device: torch.device) -> int:
    """The rows of every batch, the same on all GPUs: fewer, the larger a policy's images are."""
    if device.type != "cuda":
        return ROWS_ON_CPU
    num_observations = len(config.observation_offsets or (0,))
    images = [config.input_features[name].shape for name in visual_features(config)]
    num_pixels = num_observations * sum(math.prod(shape[1:]) for shape in images)
    fitting = PIXELS_ON_GPU // max(1, num_pixels)
    # A power of two, for which kernels are fastest.
    return max(MIN_ROWS_ON_GPU, min(1 << fitting.bit_length() >> 1, MAX_ROWS_ON_GPU))


def predicted_chunks(policy: Policy, observation: Batch, source: CounterSource) -> Tensor:
    """Raw actions (rows, steps, action); with `use_amp` in bf16 mixed precision."""
    # A captured graph would outlive the weights that a cache holds in bf16.
    with torch.autocast(
        policy.device.type, torch.bfloat16, policy.config.use_amp, cache_enabled=False
    ):
        chunks = policy.predict_action_chunk(observation, sampling_draws(policy, source))
    return chunks.float()


def sampling_draws(policy: Policy, source: CounterSource) -> dict[str, Tensor]:
    """The noise that a policy samples actions from; none for one that draws nothing."""
    network = cast(Network, policy.network)
    return network.draw_sampling(source) if hasattr(network, "draw_sampling") else {}
