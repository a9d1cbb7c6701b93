"""What a checkpoint is made of, and who can be saved and restored."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from manyhands.checkpoint.shards import Shards
from manyhands.lerobot_format.checkpoint import TrainingState
from manyhands.parallel.shards import Part


@dataclass(frozen=True)
class Position:
    """How far a run is: updates made, and samples its data order has given out."""

    step: int = 0
    samples: int = 0

    def after(self, num_samples: int) -> "Position":
        """The position one update of that many samples later."""
        return Position(self.step + 1, self.samples + num_samples)


@dataclass(frozen=True)
class Snapshot:
    """What a checkpoint will hold; nothing in it changes until the next one is taken."""

    policies: Mapping[str, Mapping[str, Tensor] | None]
    """Whole weights, in the memory of the main rank, by the folder they go to."""
    state: TrainingState
    parts: Mapping[str, Part] = field(default_factory=dict)
    """What this rank has to save by itself."""
    lap: Mapping[str, Any] | None = None
    """Measures that are not logged yet, where a request to stop came between two rows."""


class Memory(Protocol):
    """What can be put back, from a folder or from shards."""

    def load_policy(self, folder: Path, shards: Shards | None) -> None: ...

    def load_average(self, folder: Path, shards: Shards | None) -> None: ...


class Learner(Protocol):
    """What can be saved and restored."""

    @property
    def memory(self) -> Memory: ...

    def snapshot(self, position: Position) -> Snapshot:
        """Collective. Everything this learner needs to go on from a position."""

    def save_policy(self, folder: Path, weights: Mapping[str, Tensor] | None) -> None: ...

    def load_training_state(self, state: TrainingState, shards: Shards | None = None) -> list[str]:
        """Go on from a saved state; return what differs and must be said."""
