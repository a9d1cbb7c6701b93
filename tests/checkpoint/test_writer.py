"""Whatever interrupts a save, a whole checkpoint remains."""

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from manyhands.checkpoint.snapshot import Snapshot
from manyhands.checkpoint.writer import CheckpointWriter
from manyhands.config.runs.run_dir import damaged_newer, find_checkpoint
from manyhands.lerobot_format.checkpoint import TrainingState
from manyhands.parallel.world import World, joined_world

PROGRAM = Path(__file__).with_name("interrupted_saves.py")
parts = runpy.run_path(str(PROGRAM))
CONFIG, TinyFiles, save = parts["CONFIG"], parts["TinyFiles"], parts["save"]


@pytest.fixture
def world() -> Iterator[World]:
    with joined_world(CONFIG) as world:
        yield world


@pytest.mark.process
@pytest.mark.parametrize(("strike", "code"), [("crash", 9), ("fault", 2)])
def test_an_interruption_at_any_moment_leaves_a_whole_checkpoint(tmp_path, command, strike, code):
    printed = command.run([sys.executable, str(PROGRAM), str(tmp_path), strike])
    codes = json.loads(printed)
    assert len(codes) > 30
    # Failing to remove what has expired is no failure to save.
    assert set(codes[:-1]) <= ({code} if strike == "crash" else {code, 0})


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
            (told,) = damaged_newer(older)
            assert str(file) in told
        file.write_bytes(content)
    assert find_checkpoint(run_dir) == newer


def test_a_checkpoint_that_would_not_fit_is_not_begun(tmp_path, world):
    state = TrainingState(1, 8, 1, 8, 1, optimizer={"state": {}, "param_groups": []})
    huge = {"weight": torch.zeros(1).expand(10**15)}
    writer = CheckpointWriter(tmp_path, CONFIG, world, Snapshot({"p": TinyFiles(huge)}, state))
    with pytest.raises(OSError, match=r"it needs .* of disk space, .* are free"):
        writer.check_disk_space()
