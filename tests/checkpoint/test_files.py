"""Whatever interrupts a save, a whole checkpoint remains."""

import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor

from manyhands import atomic
from manyhands.checkpoint.files import CheckpointFiles
from manyhands.checkpoint.snapshot import Snapshot
from manyhands.config.act import ActConfig
from manyhands.config.checkpoints import damage_to, find_checkpoint, newest_whole, passed_over
from manyhands.config.train import TrainConfig
from manyhands.lerobot_format import files as tensor_files
from manyhands.lerobot_format.checkpoint import TrainingState
from manyhands.parallel.world import World, joined_world

CONFIG = TrainConfig(policy=ActConfig(device="cpu"), steps=9, keep_last=1)
WEIGHTS = {"weight": torch.arange(64.0)}


class TinyLearner:
    """Saves one tensor as a policy."""

    def save_policy(self, folder: Path, weights: Mapping[str, Tensor] | None) -> None:
        folder.mkdir()
        tensor_files.write_tensors(folder / "model.safetensors", weights or {})


def save(run_dir: Path, step: int, world: World) -> None:
    """Save a checkpoint, and remove the one before."""
    moments = {"state": {0: {"exp_avg": WEIGHTS["weight"]}}, "param_groups": [{"lr": 0.1}]}
    state = TrainingState(step, 8 * step, 1, 8, 1, optimizer=moments)
    snapshot = Snapshot({"pretrained_model": WEIGHTS}, state)
    files = CheckpointFiles(run_dir, CONFIG, world, snapshot, {})
    run_dir.mkdir(exist_ok=True)
    files.make_room(TinyLearner())
    files.write(TinyLearner(), {})


@pytest.fixture
def world() -> Iterator[World]:
    with joined_world(CONFIG) as world:
        yield world


class Interruption:
    """Counts what changes the disk, and strikes at one of these moments."""

    WATCHED = ("os.rename", "os.mkdir", "os.symlink", "os.remove", "os.rmdir", "shutil.rmtree")

    def __init__(self, number: int | None, strike: Callable[[], None]) -> None:
        self._number = number
        self._strike = strike
        self.count = 0

    def note(self) -> None:
        if self.count == self._number:
            self._strike()
        self.count += 1

    def hear(self, event: str, arguments: tuple[object, ...]) -> None:
        opened = event == "open" and isinstance(arguments[1], str) and "w" in arguments[1]
        if event in self.WATCHED or event == "ctypes.call_function" or opened:
            self.note()

    @contextmanager
    def lurking(self) -> Iterator[None]:
        flush, save_file = atomic.flush, tensor_files.save_file

        def noted_flush(path: Path) -> None:
            self.note()
            flush(path)

        def noted_save(*arguments: object) -> None:
            # Half of a file may be there already.
            Path(str(arguments[1])).write_bytes(b"half")
            self.note()
            save_file(*arguments)

        atomic.flush, tensor_files.save_file = noted_flush, noted_save
        sys.addaudithook(self.hear)
        yield


def in_a_child(work: Callable[[], None]) -> int:
    """Do something in a process that may die of it; its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except OSError:
            code = 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def crash() -> None:
    os._exit(9)


def fail() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(("strike", "code"), [(crash, 9), (fail, 2)], ids=["crash", "fault"])
def test_an_interruption_at_any_moment_leaves_a_whole_checkpoint(tmp_path, world, strike, code):
    def interrupted(run_dir: Path, number: int | None) -> int:
        interruption = Interruption(number, strike)

        def work() -> None:
            with interruption.lurking():
                save(run_dir, 2, world)

        return in_a_child(work)

    number, codes = 0, []
    while not codes or codes[-1] != 0:
        run_dir = tmp_path / str(number)
        save(run_dir, 1, world)
        codes.append(interrupted(run_dir, number))
        newest, last = newest_whole(run_dir), run_dir / "checkpoints/last"
        assert newest is not None
        assert damage_to(last.resolve()) is None, number
        assert last.exists(), number
        assert passed_over(newest) == []
        # The next save goes well, whatever the interrupted one left behind.
        save(run_dir, 3, world)
        assert find_checkpoint(run_dir).name == "000003"
        number += 1
    assert len(codes) > 30
    # Failing to remove what has expired is no failure to save.
    assert set(codes[:-1]) <= ({code} if strike is crash else {code, 0})


def test_a_flipped_byte_anywhere_is_found_and_the_checkpoint_before_is_used(tmp_path, world):
    for step in (1, 2):
        save(tmp_path / f"run{step}", step, world)
    run_dir = tmp_path / "run1"
    (tmp_path / "run2/checkpoints/000002").rename(run_dir / "checkpoints/000002")
    older, newer = (run_dir / "checkpoints" / name for name in ("000001", "000002"))
    files = [path for path in newer.rglob("*") if path.is_file()]
    assert len(files) > 7
    for file in files:
        content = file.read_bytes()
        for place in range(0, len(content), max(1, len(content) // 16)):
            file.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
            assert find_checkpoint(run_dir) == older, (file, place)
            (told,) = passed_over(older)
            assert str(file) in told
        file.write_bytes(content)
    assert find_checkpoint(run_dir) == newer


def test_a_checkpoint_that_would_not_fit_is_not_begun(tmp_path, world):
    state = TrainingState(1, 8, 1, 8, 1, optimizer={"state": {}, "param_groups": []})
    huge = {"weight": torch.zeros(1).expand(10**15)}
    files = CheckpointFiles(tmp_path, CONFIG, world, Snapshot({"p": huge}, state), {})
    with pytest.raises(OSError, match=r"it needs .* of disk space and .* are free"):
        files.make_room(TinyLearner())
