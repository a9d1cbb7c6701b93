"""Saves that are interrupted at every moment at which one changes the disk.

A program, because it listens to all that its process does, and forks one for each crash: off one
that tests run in, with all that they have left in its memory, that takes several times as long. It
prints the exit codes of `crash` or `fault`, whichever it is given after a folder, as JSON.
"""

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from manyhands import atomic
from manyhands.checkpoint.snapshot import Snapshot
from manyhands.checkpoint.writer import CheckpointWriter
from manyhands.config.policies.act import ActConfig
from manyhands.config.runs.run_dir import (
    checkpoint_damage,
    damaged_newer,
    find_checkpoint,
    newest_intact,
)
from manyhands.config.train import TrainConfig
from manyhands.lerobot_format import files as tensor_files
from manyhands.lerobot_format.checkpoint import TrainingState
from manyhands.lerobot_format.policy.folder import PolicyFiles
from manyhands.parallel.world import World, joined_world

CONFIG = TrainConfig(policy=ActConfig(device="cpu"), steps=9, keep_last=1)
WEIGHTS = {"weight": torch.arange(64.0)}
FAILED, CRASHED = 2, 9


class TinyFiles:
    """A policy of one tensor."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self.weights = weights

    def without_weights(self) -> "TinyFiles":
        return TinyFiles({})

    def write(self, folder: Path) -> None:
        folder.mkdir()
        tensor_files.write_tensors(folder / "model.safetensors", self.weights)


def save(run_dir: Path, step: int, world: World) -> None:
    """Save a checkpoint, and remove the one before."""
    moments = {"state": {0: {"exp_avg": WEIGHTS["weight"]}}, "param_groups": [{"lr": 0.1}]}
    state = TrainingState(step, 8 * step, 1, 8, 1, optimizer=moments)
    snapshot = Snapshot({"pretrained_model": cast(PolicyFiles, TinyFiles(WEIGHTS))}, state)
    writer = CheckpointWriter(run_dir, CONFIG, world, snapshot)
    run_dir.mkdir(exist_ok=True)
    writer.check_disk_space()
    writer.write({})


class Interruption:
    """Counts what changes the disk, and strikes at one of these moments."""

    WATCHED = ("os.rename", "os.mkdir", "os.symlink", "os.remove", "os.rmdir", "shutil.rmtree")

    def __init__(self, number: int, strike: Callable[[], None]) -> None:
        self._number = number
        self._strike = strike
        self._count = 0
        self.has_struck = False

    def note(self) -> None:
        if self._count == self._number:
            self.has_struck = True
            # Where that raises, so does every moment from here on: a full disk stays full.
            self._strike()
        self._count += 1

    def hear(self, event: str, arguments: tuple[object, ...]) -> None:
        opened = event == "open" and isinstance(arguments[1], str) and "w" in arguments[1]
        if event in self.WATCHED or event == "ctypes.call_function" or opened:
            self.note()

    @contextmanager
    def lurking(self) -> Iterator[None]:
        flush, save_file = atomic.fsync_path, tensor_files.save_file

        def noted_flush(path: Path) -> None:
            self.note()
            flush(path)

        def noted_save(*arguments: object) -> None:
            # Half of a file may be there already.
            Path(str(arguments[1])).write_bytes(b"half")
            self.note()
            save_file(*arguments)

        atomic.fsync_path, tensor_files.save_file = noted_flush, noted_save
        listening.append(self)
        try:
            yield
        finally:
            listening.remove(self)
            atomic.fsync_path, tensor_files.save_file = flush, save_file


listening: list[Interruption] = []


def hear(event: str, arguments: tuple[object, ...]) -> None:
    """Tell of an event whoever listens; a process never loses what listens to it."""
    for each in listening:
        each.hear(event, arguments)


def code_of(work: Callable[[], None]) -> int:
    """Do something that may fail; the exit code that stands for what became of it."""
    try:
        work()
    except OSError:
        return FAILED
    return 0


def code_in_a_child(work: Callable[[], None]) -> int:
    """Do something in a process that may die of it; its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = code_of(work)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def crash() -> None:
    os._exit(CRASHED)


def fail() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupted(run_dir: Path, world: World, interruption: Interruption, is_crash: bool) -> int:
    """Interrupt the second save of a run, and see what is left; the exit code of that save."""

    def work() -> None:
        with interruption.lurking():
            save(run_dir, 2, world)

    code = code_in_a_child(work) if is_crash else code_of(work)
    newest, last = newest_intact(run_dir), run_dir / "checkpoints/last"
    assert newest is not None
    assert checkpoint_damage(last.resolve()) is None, run_dir
    assert last.exists(), run_dir
    assert damaged_newer(newest) == []
    # The next save goes well, whatever the interrupted one left behind.
    save(run_dir, 3, world)
    assert find_checkpoint(run_dir).name == "000003"
    return code


def main(folder: Path, is_crash: bool) -> None:
    """Interrupt one moment after the other, until a save is over before its moment comes."""
    codes: list[int] = []
    is_over = False
    sys.addaudithook(hear)
    with joined_world(CONFIG) as world:
        save(folder / "saved", 1, world)
        while not is_over:
            number = len(codes)
            run_dir = shutil.copytree(folder / "saved", folder / str(number), symlinks=True)
            interruption = Interruption(number, crash if is_crash else fail)
            codes.append(interrupted(run_dir, world, interruption, is_crash))
            # A save may go well although its moment came; a process that did has not crashed.
            is_over = codes[-1] == 0 and not interruption.has_struck
            shutil.rmtree(run_dir)
    print(json.dumps(codes))


if __name__ == "__main__":
    # Processes end here, and the machine does not: what was written stays, flushed or not.
    os.fsync = lambda _: None
    main(Path(sys.argv[1]), is_crash=sys.argv[2] == "crash")
