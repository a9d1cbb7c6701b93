"""The contents of a checkpoint, and the interface of what can be saved and restored."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from manyhands.checkpoint.shards import Shards
from manyhands.lerobot_format.checkpoint import TrainingState
from manyhands.parallel.sharded_tensors import TensorShard


@dataclass(frozen=True)
class Position:
    """The progress of a run: finished steps, and samples drawn from the data order."""

    step: int = 0
    samples: int = 0

    def after(self, num_samples: int) -> "Position":
        """The position one step of that many samples later."""
        return Position(self.step + 1, self.samples + num_samples)


class WeightsFolder(Protocol):
    """The contents of a folder with the weights of a network."""

    @property
    def weights(self) -> Mapping[str, Tensor]: ...

    def write(self, folder: Path) -> None: ...

    def without_weights(self) -> "WeightsFolder": ...


@dataclass(frozen=True)
class Snapshot:
    """The contents of a checkpoint; they stay valid until the next snapshot."""

    policies: Mapping[str, WeightsFolder]
    """Full weights in host memory of the main rank, by target folder."""
    state: TrainingState
    shards: Mapping[str, TensorShard] = field(default_factory=dict)  # The shards of this rank.
    scores: Mapping[str, float] = field(default_factory=dict)
    """Metrics of the position, by which the best checkpoint is chosen."""
    unscored: frozenset[int] = frozenset()
    """Steps of older checkpoints that may be the best, once their scores arrive."""
    pending_metrics: Mapping[str, Any] | None = None
    """Metrics that are not logged yet, if a stop request came between two rows."""
    documents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further JSON files of the training state, by name."""


class Restorable(Protocol):
    """State that can be restored from a folder or from shards."""

    def load_policy(self, folder: Path, shards: Shards | None) -> None: ...

    def load_average(self, folder: Path, shards: Shards | None) -> None: ...


class Saveable(Protocol):
    """The interface of a learner that can be saved and restored."""

    @property
    def memory(self) -> Restorable: ...

    def snapshot(self, position: Position) -> Snapshot:
        """Collective. Everything this learner needs to resume from a position."""

    def load_training_state(self, state: TrainingState, shards: Shards | None = None) -> list[str]:
        """Load a saved state; return warnings to log."""
