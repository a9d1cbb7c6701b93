"""The files of one checkpoint: written to a scratch folder with a manifest, then renamed."""

import os
import platform
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from manyhands import units
from manyhands.atomic import atomic_directory, replace_symlink
from manyhands.checkpoint.retention import apply_retention
from manyhands.checkpoint.shards import shard_file, shard_num_bytes, write_shard
from manyhands.checkpoint.snapshot import Snapshot
from manyhands.config.files.config_files import to_json
from manyhands.config.files.lerobot_train_config import to_lerobot
from manyhands.config.paths.stored import with_absolute_paths
from manyhands.config.runs.run_dir import (
    LAST,
    OWN_CONFIG,
    SHARDS,
    TRAIN_CONFIG,
    TRAINING_STATE,
    checkpoint_dir,
)
from manyhands.config.train import TrainConfig
from manyhands.errors import Stopped
from manyhands.lerobot_format.checkpoint import TrainingState, flat_state, write_training_state
from manyhands.lerobot_format.files import tensors_num_bytes, write_json
from manyhands.manifest import MANIFEST, Entry, describe_file, describe_folder, manifest_text
from manyhands.parallel.world import World
from manyhands.version import VERSION

ENTRY_BYTES = 512  # Maximal size of a file's manifest entry.


def tensor_files_bytes(snapshot: Snapshot, num_shards: int, block: int) -> int:
    """Disk space of the files with weights and optimizer state, and their manifest entries."""
    found = [files.weights for files in snapshot.policies.values()]
    sizes = [tensors_num_bytes(weights) for weights in found if weights]
    if not snapshot.state.is_sharded:
        sizes.append(tensors_num_bytes(flat_state(snapshot.state.optimizer.get("state", {}))))
    if snapshot.shards:
        sizes += [shard_num_bytes(snapshot.shards)] * num_shards
    entries = _in_blocks(len(sizes) * ENTRY_BYTES, block)
    return sum(_in_blocks(size, block) for size in sizes) + entries


def disk_usage(folder: Path) -> int:
    """Disk space of a folder and everything in it."""
    block = block_bytes(folder)
    return sum(_in_blocks(path.stat().st_size, block) for path in (folder, *folder.rglob("*")))


def block_bytes(folder: Path) -> int:
    """The block size of a filesystem."""
    return os.statvfs(folder).f_frsize


def _in_blocks(size: int, block: int) -> int:
    return -(-size // block) * block


PLENTY_BYTES = 64 << 20  # Disk space that is enough for all files without tensors.


class CheckpointWriter:
    """Writes the checkpoint of one snapshot."""

    def __init__(
        self,
        run_dir: Path,
        config: TrainConfig,
        world: World,
        snapshot: Snapshot,
    ) -> None:
        self.target = checkpoint_dir(run_dir, snapshot.state.step, config.num_steps)
        self._state = snapshot.state
        self.step = self._state.step
        self.is_sharded = self._state.is_sharded
        self._run_dir = run_dir
        self._config = replace(with_absolute_paths(config), output_dir=run_dir.absolute())
        self._world = world
        self._snapshot = snapshot
        self._lock = threading.Lock()
        self._is_canceled = False

    @property
    def _incoming(self) -> Path:
        """Folder for shards until the main rank moves them into the checkpoint."""
        return self.target.with_name(f".{self.target.name}.shards")

    def check_disk_space(self) -> None:
        """Prepare folders for all ranks; raises OSError if disk space is missing."""
        # A removed run directory is not created again: the user may not want it back.
        self.target.parent.mkdir(exist_ok=True)
        shutil.rmtree(self._incoming, ignore_errors=True)
        if self.is_sharded:
            self._incoming.mkdir()
        free = shutil.disk_usage(self.target.parent).free
        if free >= self._tensors_bytes() + PLENTY_BYTES:
            return
        needed = self.needed_bytes()
        if free < needed:
            raise OSError(
                f"it needs {units.num_bytes(needed)} of disk space, "
                f"{units.num_bytes(free)} are free"
            )

    def needed_bytes(self) -> int:
        """Disk space of the checkpoint; overestimates by a few percent, never too low."""
        parent, name = self.target.parent, self.target.name
        with tempfile.TemporaryDirectory(".partial", f".{name}.", parent) as folder:
            # Writes the small files to find their size.
            scratch = Path(folder)
            self._write_policies(scratch, with_weights=False)
            self._write_state(scratch / TRAINING_STATE, replace(self._state, is_sharded=True))
            (scratch / MANIFEST).write_text(self._manifest(scratch, {}), "utf-8")
            return self._tensors_bytes() + disk_usage(scratch)

    def _tensors_bytes(self) -> int:
        num_shards = self._world.strategy.num_shards if self.is_sharded else 1
        return tensor_files_bytes(self._snapshot, num_shards, block_bytes(self.target.parent))

    def write_shard(self) -> tuple[str, Entry]:
        """Write the shard of this rank; returns its name in the checkpoint and its entry."""
        file = shard_file(self._incoming, self._world.rank, self._world.size)
        write_shard(file, self._snapshot.shards)
        return f"{TRAINING_STATE}/{SHARDS}/{file.name}", describe_file(file)

    def write(self, shards: Mapping[str, Entry]) -> None:
        """Write all other files and publish the checkpoint atomically, with all shards."""
        with atomic_directory(self.target, self._publishing()) as scratch:
            self._write_policies(scratch)
            self._write_state(scratch / TRAINING_STATE, self._state)
            (scratch / MANIFEST).write_text(self._manifest(scratch, shards), "utf-8")
            if self.is_sharded:
                self._incoming.rename(scratch / TRAINING_STATE / SHARDS)
        replace_symlink(self.target.parent / LAST, self.target.name)
        apply_retention(self._run_dir, self._config, self._snapshot.unscored)

    def cancel(self) -> None:
        """Never publish the checkpoint, unless that has happened."""
        with self._lock:
            self._is_canceled = True

    @contextmanager
    def _publishing(self) -> Iterator[None]:
        with self._lock:
            if self._is_canceled:
                raise Stopped
            yield

    def _write_policies(self, scratch: Path, with_weights: bool = True) -> None:
        for name, files in self._snapshot.policies.items():
            (files if with_weights else files.without_weights()).write(scratch / name)
            if self._config.policy is not None:
                # LeRobot derives no batch size, so its config gets the derived one.
                plain = replace(self._config, batch_size=self._state.batch_size)
                theirs = to_json(to_lerobot(plain, self._run_dir.absolute()))
                (scratch / name / TRAIN_CONFIG).write_text(theirs, "utf-8")

    def _write_state(self, folder: Path, state: TrainingState) -> None:
        folder.mkdir()
        (folder / OWN_CONFIG).write_text(to_json(self._config), "utf-8")
        write_training_state(folder, state)
        for name, document in self._snapshot.documents.items():
            write_json(folder / name, dict(document), indent=4)

    def _manifest(self, scratch: Path, shards: Mapping[str, Entry]) -> str:
        return manifest_text(self._facts(), describe_folder(scratch) | dict(shards))

    def _facts(self) -> dict[str, Any]:
        strategy, state = self._world.strategy, self._state
        pending = self._snapshot.pending_metrics
        return {
            "step": state.step,
            "samples": state.samples,
            "saved_at": time.time(),
            "scores": dict(self._snapshot.scores),
            **({} if pending is None else {"lap": pending}),
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
        """Remove unfinished files."""
        shutil.rmtree(self._incoming, ignore_errors=True)


def write_error(error: OSError, target: Path) -> str:
    """Why a checkpoint cannot be written."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"cannot write the checkpoint {target}: {reason}"
