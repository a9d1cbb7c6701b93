"""Checkpoints of a run: saved whole, restored exactly."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor

from manyhands.atomic import point_link, whole_directory
from manyhands.checkpoint.layout import checkpoint_dir, find_checkpoint
from manyhands.config.files import OWN_CONFIG, TRAIN_CONFIG, read_config_file, to_json
from manyhands.config.folders import AVERAGED, LAST, PRETRAINED, TRAINING_STATE
from manyhands.config.lerobot_train import to_lerobot
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


@dataclass(frozen=True)
class Snapshot:
    """What a checkpoint holds, in the memory of the main rank."""

    policies: Mapping[str, Mapping[str, Tensor]]
    """Weights by the folder they go to."""
    state: TrainingState


class Learner(Protocol):
    """What can be saved and restored."""

    def snapshot(self, position: Position) -> Snapshot:
        """Collective. Everything this learner needs to go on from a position."""

    def save_policy(self, folder: Path, weights: Mapping[str, Tensor]) -> None: ...

    def load_policy(self, folder: Path) -> None: ...

    def load_average(self, folder: Path) -> None: ...

    def load_training_state(self, state: TrainingState) -> list[str]:
        """Go on from a saved state; return what differs and must be said."""


class CheckpointStore:
    """The checkpoints of one run directory."""

    def __init__(self, run_dir: Path, config: TrainConfig, world: World) -> None:
        self._run_dir = run_dir
        self._config = config
        self._world = world

    def restore(self, learner: Learner) -> tuple[Position, list[str]]:
        """Collective. Bring the learner to where --resume says, and what must be said of it.

        A fresh run starts at zero.
        """
        if self._config.resume is False:
            return Position(), []
        folder = find_checkpoint(Path(str(self._config.resume)))
        state = read_training_state(folder / TRAINING_STATE)
        learner.load_policy(folder / PRETRAINED)
        notes = learner.load_training_state(state)
        if self._config.ema.enable:
            notes += restore_average(folder, learner, state.step)
        return Position(state.step, state.samples), notes

    def save(self, position: Position, learner: Learner) -> None:
        """Collective. Write the checkpoint of a position and point `last` at it."""
        snapshot = learner.snapshot(position)
        if self._world.is_main:
            self._write(snapshot, learner)
        self._world.barrier()

    def _write(self, snapshot: Snapshot, learner: Learner) -> None:
        target = checkpoint_dir(self._run_dir, snapshot.state.step, self._config.steps)
        theirs = to_json(to_lerobot(self._config, self._run_dir))
        try:
            with whole_directory(target) as scratch:
                for name, weights in snapshot.policies.items():
                    learner.save_policy(scratch / name, weights)
                    (scratch / name / TRAIN_CONFIG).write_text(theirs, "utf-8")
                (scratch / TRAINING_STATE).mkdir()
                own = to_json(self._config)
                (scratch / TRAINING_STATE / OWN_CONFIG).write_text(own, "utf-8")
                write_training_state(scratch / TRAINING_STATE, snapshot.state)
            point_link(target.parent / LAST, target.name)
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint {target} cannot be written: {error}; older ones are intact. "
                "Free some space or choose another --output_dir, then --resume"
            ) from error


def restore_average(folder: Path, learner: Learner, step: int) -> list[str]:
    """Bring the average to where a checkpoint has it; return what must be said.

    One that its run never had starts from the weights; one that is lost cannot be made up for.
    """
    if (folder / AVERAGED).is_dir():
        learner.load_average(folder / AVERAGED)
        return []
    stored = read_config_file(str(folder / PRETRAINED / TRAIN_CONFIG)).get("ema") or {}
    if stored.get("enable"):
        raise CheckpointError(
            f"{folder / AVERAGED} is missing, but this run averaged its weights; copy the "
            "checkpoint again, or go on without an average by --ema.enable=false"
        )
    return [
        f"NOTE: the average of the weights starts from those of step {step}, as the checkpoint "
        f"has none; to let its decay rise from there add --ema.update_after_step={step}"
    ]
