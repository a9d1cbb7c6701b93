"""The observation history of a robot, for policies with several observation steps."""

from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from manyhands.types import Batch


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
