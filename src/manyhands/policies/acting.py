"""A policy in action: one action per control tick, from chunks and observation windows."""

from collections import deque
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.base import PolicyConfig
from manyhands.types import Batch

Predict = Callable[[], Tensor]
"""Makes a new chunk (samples, steps, action) from the current observation."""


def action_plan(config: PolicyConfig) -> "ActionPlan":
    """How a policy's chunks become actions: one after the other, or averaged where they overlap."""
    if isinstance(config, ActConfig) and config.temporal_ensemble_coeff is not None:
        return TemporalEnsemble(config.temporal_ensemble_coeff, config.chunk_size)
    return ActionQueue(config.num_executed_actions)


class ActionQueue:
    """Executes the first actions of a chunk before it requests the next one."""

    def __init__(self, num_steps: int) -> None:
        self._num_steps = num_steps
        self._queue: deque[Tensor] = deque()

    def next_action(self, predict: Predict) -> Tensor:
        """The oldest action in the queue; an empty queue is filled from a new chunk."""
        if not self._queue:
            self._queue.extend(self.actions_before_next(predict()).unbind(dim=1))
        return self._queue.popleft()

    def actions_before_next(self, chunk: Tensor) -> Tensor:
        """The first actions of the chunk."""
        return chunk[:, : self._num_steps]

    def reset(self) -> None:
        """Empty the queue."""
        self._queue.clear()


class TemporalEnsemble:
    """Temporal ensembling: averages all chunks' actions; the i-th oldest weighs exp(-coeff * i)."""

    def __init__(self, coeff: float, chunk_size: int) -> None:
        self._weights = torch.exp(-coeff * torch.arange(chunk_size))
        self._sums = self._weights.cumsum(dim=0)
        self._average: Tensor | None = None
        self._num_ticks = 0

    def next_action(self, predict: Predict) -> Tensor:
        """Take a new chunk into the average and give its first action."""
        chunk = predict()
        blended = chunk if self._average is None else self._blend(self._average, chunk)
        self._average = blended[:, 1:]
        self._num_ticks += 1
        return blended[:, 0]

    def actions_before_next(self, chunk: Tensor) -> Tensor:
        """The average's first action: every tick has a chunk of its own."""
        return self.next_action(lambda: chunk).unsqueeze(1)

    def reset(self) -> None:
        """Drop all chunks."""
        self._average = None
        self._num_ticks = 0

    def _blend(self, average: Tensor, chunk: Tensor) -> Tensor:
        # A step that lies i ticks ahead was reached by all earlier chunks but the oldest ones.
        num_seen = torch.arange(chunk.shape[1] - 1, 0, -1).clamp(max=self._num_ticks)
        kept = (self._sums[num_seen - 1] / self._sums[num_seen])[:, None].to(chunk)
        added = (self._weights[num_seen] / self._sums[num_seen])[:, None].to(chunk)
        return torch.cat([average * kept + chunk[:, :-1] * added, chunk[:, -1:]], dim=1)


class ObservationWindow:
    """Observations at fixed offsets from now, stacked on a time axis behind the sample axis.

    An episode's first observation is repeated for all earlier ones.
    Without offsets the window is the latest observation itself, without a time axis.
    """

    def __init__(self, offsets: Sequence[int] | None) -> None:
        self._offsets = offsets
        self._latest: deque[Batch] = deque(maxlen=1 if offsets is None else 1 - min(offsets))

    def push(self, observation: Batch) -> None:
        """Add the observation of a control tick; call it at every tick."""
        self._latest.append(observation)

    def contents(self) -> Batch:
        """The policy's input at this tick."""
        now = self._latest[-1]
        if self._offsets is None:
            return now
        oldest = 1 - len(self._latest)
        seen = [self._latest[max(offset, oldest) - 1] for offset in self._offsets]
        return {
            key: torch.stack([each[key] for each in seen], dim=1)
            if isinstance(value, Tensor)
            else value
            for key, value in now.items()
        }

    def reset(self) -> None:
        """Reset at the start of an episode."""
        self._latest.clear()


ActionPlan = ActionQueue | TemporalEnsemble
