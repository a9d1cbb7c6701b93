"""Checkpoints of a run: saved whole, restored exactly."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from manyhands.atomic import point_link, whole_directory
from manyhands.checkpoint.layout import (
    LAST,
    PRETRAINED,
    TRAINING_STATE,
    checkpoint_dir,
    find_checkpoint,
)
from manyhands.config.files import TRAIN_CONFIG, to_json
from manyhands.config.train import TrainConfig
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.checkpoint import (
    TrainingState,
    read_training_state,
    write_training_state,
)
from manyhands.parallel.world import World


@dataclass(frozen=True)
class Position:
    """How far a run is: updates made, and samples its data order has given out."""

    step: int = 0
    samples: int = 0

    def after(self, num_samples: int) -> "Position":
        """The position one update of that many samples later."""
        return Position(self.step + 1, self.samples + num_samples)


class Learner(Protocol):
    """What can be saved and restored."""

    def save_policy(self, folder: Path) -> None: ...

    def load_policy(self, folder: Path) -> None: ...

    def training_state(self, position: Position) -> TrainingState: ...

    def load_training_state(self, state: TrainingState) -> None: ...


class CheckpointStore:
    """The checkpoints of one run directory."""

    def __init__(self, run_dir: Path, config: TrainConfig, world: World) -> None:
        self._run_dir = run_dir
        self._config = config
        self._world = world

    def restore(self, learner: Learner) -> Position:
        """Collective. Bring the learner to where --resume says; a fresh run starts at zero."""
        if self._config.resume is False:
            return Position()
        folder = find_checkpoint(Path(str(self._config.resume)))
        state = read_training_state(folder / TRAINING_STATE)
        learner.load_policy(folder / PRETRAINED)
        learner.load_training_state(state)
        return Position(state.step, state.samples)

    def save(self, position: Position, learner: Learner) -> None:
        """Collective. Write the checkpoint of a position and point `last` at it."""
        if self._world.is_main:
            self._write(position, learner)
        self._world.barrier()

    def _write(self, position: Position, learner: Learner) -> None:
        target = checkpoint_dir(self._run_dir, position.step, self._config.steps)
        try:
            with whole_directory(target) as scratch:
                policy, state = scratch / PRETRAINED, scratch / TRAINING_STATE
                policy.mkdir()
                state.mkdir()
                learner.save_policy(policy)
                (policy / TRAIN_CONFIG).write_text(to_json(self._config), encoding="utf-8")
                write_training_state(state, learner.training_state(position))
            point_link(target.parent / LAST, target.name)
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint {target} cannot be written: {error}; older ones are intact. "
                "Free some space or choose another --output_dir, then --resume"
            ) from error
