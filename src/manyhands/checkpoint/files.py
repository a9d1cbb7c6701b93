"""The files of one checkpoint: written aside, described by a manifest, and renamed whole."""

import os
import platform
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from manyhands import units
from manyhands.atomic import point_link, whole_directory
from manyhands.checkpoint.retention import tidy
from manyhands.checkpoint.shards import shard_file, write_shard
from manyhands.checkpoint.snapshot import Learner, Snapshot
from manyhands.config.checkpoints import checkpoint_dir
from manyhands.config.files import OWN_CONFIG, TRAIN_CONFIG, to_json
from manyhands.config.folders import LAST, SHARDS, TRAINING_STATE
from manyhands.config.lerobot_train import to_lerobot
from manyhands.config.train import TrainConfig
from manyhands.lerobot_format.checkpoint import write_training_state
from manyhands.manifest import MANIFEST, Entry, entries_of, entry_of, manifest_text
from manyhands.parallel.world import World
from manyhands.version import VERSION

ROOM = 1.05
"""How much more than its tensors a checkpoint takes."""


class CheckpointFiles:
    """The checkpoint of one snapshot on its way to the disk."""

    def __init__(
        self,
        run_dir: Path,
        config: TrainConfig,
        world: World,
        snapshot: Snapshot,
        scores: Mapping[str, float],
    ) -> None:
        self.target = checkpoint_dir(run_dir, snapshot.state.step, config.num_steps)
        self.step = snapshot.state.step
        self.is_sharded = snapshot.state.is_sharded
        self._run_dir = run_dir
        self._config = config
        self._world = world
        self._snapshot = snapshot
        self._scores = dict(scores)

    @property
    def _incoming(self) -> Path:
        """Where ranks leave their shards until the main rank takes them into the checkpoint."""
        return self.target.with_name(f".{self.target.name}.shards")

    def make_room(self) -> None:
        """Prepare for the files of all ranks; raises OSError where they would not fit."""
        self.target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self._incoming, ignore_errors=True)
        if self.is_sharded:
            self._incoming.mkdir()
        num_ranks = self._world.strategy.num_shards if self.is_sharded else 1
        needed = int(ROOM * num_ranks * self._snapshot.num_bytes)
        free = shutil.disk_usage(self.target.parent).free
        if free < needed:
            raise OSError(
                f"it takes about {units.num_bytes(needed)} and {units.num_bytes(free)} are free"
            )

    def write_shard(self) -> tuple[str, Entry]:
        """Write what this rank has to save; its name in the checkpoint, and what it is."""
        file = shard_file(self._incoming, self._world.rank, self._world.size)
        write_shard(file, self._snapshot.parts)
        return f"{TRAINING_STATE}/{SHARDS}/{file.name}", entry_of(file)

    def write(self, learner: Learner, shards: Mapping[str, Entry]) -> None:
        """Write everything else and let the checkpoint appear, with the shards of all ranks."""
        with whole_directory(self.target) as scratch:
            self._write_policies(scratch, learner)
            self._write_state(scratch / TRAINING_STATE)
            manifest = manifest_text(self._facts(), entries_of(scratch) | dict(shards))
            (scratch / MANIFEST).write_text(manifest, "utf-8")
            if self.is_sharded:
                self._incoming.rename(scratch / TRAINING_STATE / SHARDS)
        point_link(self.target.parent / LAST, self.target.name)
        tidy(self._run_dir, self._config)

    def _write_policies(self, scratch: Path, learner: Learner) -> None:
        # The size of a batch that follows from others is told to LeRobot, which derives none.
        plain = replace(self._config, batch_size=self._snapshot.state.batch_size)
        theirs = to_json(to_lerobot(plain, self._run_dir))
        for name, weights in self._snapshot.policies.items():
            learner.save_policy(scratch / name, weights)
            (scratch / name / TRAIN_CONFIG).write_text(theirs, "utf-8")

    def _write_state(self, folder: Path) -> None:
        folder.mkdir()
        (folder / OWN_CONFIG).write_text(to_json(self._config), "utf-8")
        write_training_state(folder, self._snapshot.state)

    def _facts(self) -> dict[str, Any]:
        strategy, state = self._world.strategy, self._snapshot.state
        return {
            "step": state.step,
            "samples": state.samples,
            "saved_at": time.time(),
            "scores": self._scores,
            "topology": {
                "num_processes": self._world.size,
                "strategy": strategy.kind.value,
                "dp_replicate": strategy.num_replicas,
                "dp_shard": strategy.num_shards,
                "gpus_per_process": strategy.num_devices,
                "checkpoint_format": strategy.checkpoint_format,
            },
            "versions": {
                "manyhands": VERSION,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
        }

    def give_up(self) -> None:
        """Leave nothing behind of what could not be finished."""
        shutil.rmtree(self._incoming, ignore_errors=True)


def told(error: OSError, target: Path) -> str:
    """Why a checkpoint cannot be written."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"the checkpoint {target} cannot be written: {reason}"
