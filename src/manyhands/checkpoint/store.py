"""Checkpoints of a run: saved whole, restored exactly."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from torch import Tensor

from manyhands.atomic import point_link, whole_directory
from manyhands.checkpoint.layout import checkpoint_dir, find_checkpoint
from manyhands.checkpoint.shards import Shards, shard_file, write_shard
from manyhands.config.files import OWN_CONFIG, TRAIN_CONFIG, read_config_file, to_json
from manyhands.config.folders import AVERAGED, LAST, PRETRAINED, SHARDS, TRAINING_STATE
from manyhands.config.lerobot_train import to_lerobot
from manyhands.config.train import TrainConfig
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.checkpoint import (
    TrainingState,
    read_progress,
    read_training_state,
    write_training_state,
)
from manyhands.parallel.shards import Part
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
    """What a checkpoint will hold."""

    policies: Mapping[str, Mapping[str, Tensor] | None]
    """Whole weights, in the memory of the main rank, by the folder they go to."""
    state: TrainingState
    parts: Mapping[str, Part] = field(default_factory=dict)
    """What this rank has to save by itself."""


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

    def load_training_state(self, state: TrainingState, shards: Shards | None) -> list[str]:
        """Go on from a saved state; return what differs and must be said."""


def resumed_position(config: TrainConfig) -> Position:
    """Where --resume says that a run stands; zero for a fresh one."""
    if config.resume is False:
        return Position()
    folder = find_checkpoint(Path(str(config.resume)))
    state = read_progress(folder / TRAINING_STATE)
    return Position(state.step, state.samples)


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
        shards = Shards(folder / TRAINING_STATE / SHARDS) if state.is_sharded else None
        learner.memory.load_policy(folder / PRETRAINED, shards)
        notes = learner.load_training_state(state, shards)
        if self._config.ema.enable and (folder / AVERAGED).is_dir():
            learner.memory.load_average(folder / AVERAGED, shards)
        elif self._config.ema.enable:
            notes.append(note_on_average(folder, state.step))
        return Position(state.step, state.samples), notes

    def save(self, position: Position, learner: Learner) -> None:
        """Collective. Write the checkpoint of a position and point `last` at it."""
        snapshot = learner.snapshot(position)
        target = checkpoint_dir(self._run_dir, position.step, self._config.num_steps)
        writing = told_if_unwritable(target)
        if snapshot.state.is_sharded:
            self._world.once(writing(lambda: make_empty(incoming_shards(target))))
            self._world.each(writing(lambda: self._write_shard(target, snapshot)))
        self._world.once(writing(lambda: self._write(target, snapshot, learner)))

    def _write_shard(self, target: Path, snapshot: Snapshot) -> None:
        file = shard_file(incoming_shards(target), self._world.rank, self._world.size)
        write_shard(file, snapshot.parts)

    def _write(self, target: Path, snapshot: Snapshot, learner: Learner) -> None:
        # The size of a batch that follows from others is told to LeRobot, which derives none.
        plain = replace(self._config, batch_size=snapshot.state.batch_size)
        theirs = to_json(to_lerobot(plain, self._run_dir))
        with whole_directory(target) as scratch:
            for name, weights in snapshot.policies.items():
                learner.save_policy(scratch / name, weights)
                (scratch / name / TRAIN_CONFIG).write_text(theirs, "utf-8")
            (scratch / TRAINING_STATE).mkdir()
            own = to_json(self._config)
            (scratch / TRAINING_STATE / OWN_CONFIG).write_text(own, "utf-8")
            write_training_state(scratch / TRAINING_STATE, snapshot.state)
            if snapshot.state.is_sharded:
                incoming_shards(target).rename(scratch / TRAINING_STATE / SHARDS)
        point_link(target.parent / LAST, target.name)


def incoming_shards(target: Path) -> Path:
    """Where ranks leave their shards until the main rank takes them into the checkpoint."""
    return target.with_name(f".{target.name}.shards")


def make_empty(folder: Path) -> None:
    """Make a folder, without what an interrupted save may have left there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


@contextmanager
def told_if_unwritable(target: Path) -> Iterator[None]:
    """Tell users what to do about a disk that refuses to be written to."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint {target} cannot be written: {error}; older ones are intact. "
            "Free some space or choose another --output_dir, then --resume"
        ) from error


def note_on_average(folder: Path, step: int) -> str:
    """What must be said of an average that a checkpoint does not have.

    One that its run never had starts from the weights; one that is lost cannot be made up for.
    """
    stored = read_config_file(str(folder / PRETRAINED / TRAIN_CONFIG)).get("ema") or {}
    if stored.get("enable"):
        raise CheckpointError(
            f"{folder / AVERAGED} is missing, but this run averaged its weights; copy the "
            "checkpoint again, or go on without an average by --ema.enable=false"
        )
    return (
        f"NOTE: the average of the weights starts from those of step {step}, as the checkpoint "
        f"has none; to let its decay rise from there add --ema.update_after_step={step}"
    )
