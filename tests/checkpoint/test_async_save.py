"""A save in the background."""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from manyhands.checkpoint.async_save import AsyncSave
from manyhands.checkpoint.snapshot import Snapshot
from manyhands.checkpoint.writer import CheckpointWriter
from manyhands.config.policies.act import ActConfig
from manyhands.config.runs.run_dir import newest_intact
from manyhands.config.train import TrainConfig
from manyhands.errors import RankLost
from manyhands.lerobot_format.checkpoint import TrainingState
from manyhands.lerobot_format.files import write_tensors
from manyhands.lerobot_format.policy.folder import PolicyFiles
from manyhands.parallel.world import World, joined_world

CONFIG = TrainConfig(policy=ActConfig(device="cpu"), steps=9)
STATE = TrainingState(1, 8, 1, 8, 1, optimizer={"state": {}, "param_groups": []})


class SlowFiles:
    """Waits with a policy's files until it may write them, and fails as often as it is told to."""

    weights: Mapping[str, Tensor] = {"w": torch.zeros(3)}

    def __init__(self, *errors: Exception) -> None:
        self.may_save = threading.Event()
        self._errors = list(errors)

    def without_weights(self) -> "SlowFiles":
        return self

    def write(self, folder: Path) -> None:
        assert self.may_save.wait(20)
        if self._errors:
            raise self._errors.pop()
        folder.mkdir()


@pytest.fixture
def world() -> Iterator[World]:
    with joined_world(CONFIG) as world:
        yield world


def saving_of(run_dir: Path, policy: Any, world: World) -> AsyncSave:
    snapshot = Snapshot({"pretrained_model": policy}, STATE)
    writer = CheckpointWriter(run_dir, CONFIG, world, snapshot)
    return AsyncSave("1", writer, world, world.watch.channel("saves"))


def test_a_canceled_save_leaves_no_checkpoint_and_a_complete_one_stays(tmp_path, world):
    (tmp_path / "kept").mkdir()
    for run_dir in (tmp_path, tmp_path / "kept"):
        policy, lines = SlowFiles(), []
        saving = saving_of(run_dir, policy, world)
        saving.start(lines.append)
        if run_dir == tmp_path:
            saving.cancel()
        policy.may_save.set()
        saving.wait(20)
        saving.cancel()
    assert newest_intact(tmp_path) is None
    assert [*(tmp_path / "checkpoints").iterdir()] == []
    assert newest_intact(tmp_path / "kept") == tmp_path / "kept" / "checkpoints" / "000001"


def test_training_goes_on_while_a_checkpoint_is_written(tmp_path, world):
    policy, said = SlowFiles(), []
    saving = saving_of(tmp_path, policy, world)
    saving.start(said.append)
    assert newest_intact(tmp_path) is None
    policy.may_save.set()
    saving.finish()
    assert newest_intact(tmp_path) == tmp_path / "checkpoints/000001"
    assert saving.fault is None
    assert len(said) == 1
    assert "checkpoint of step 1 saved" in said[0]


def test_a_failure_is_told_and_tried_again(tmp_path, world, monkeypatch):
    monkeypatch.setattr("manyhands.checkpoint.async_save.PAUSES_S", (0.0, 0.0))
    policy, said = SlowFiles(OSError(5, "Input/output error")), []
    policy.may_save.set()
    saving = saving_of(tmp_path, policy, world)
    saving.start(said.append)
    saving.finish()
    assert saving.fault is None
    assert newest_intact(tmp_path) is not None
    assert "Input/output error; retrying" in said[0]
    assert "saved" in said[1]


def test_a_newer_save_does_not_wait_for_the_pauses_of_one_that_fails(tmp_path, world, monkeypatch):
    monkeypatch.setattr("manyhands.checkpoint.async_save.PAUSES_S", (1000.0, 1000.0))
    policy = SlowFiles(*[OSError(5, "Input/output error")] * 3)
    policy.may_save.set()
    saving = saving_of(tmp_path, policy, world)
    saving.start(lambda line: None)
    saving.skip_retry_delay()
    saving.finish()
    assert "Input/output error" in str(saving.fault)


class LostChannel:
    """The messages of a run whose main rank is gone."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def send(self, name: str, text: str = "") -> None:
        raise self._error

    receive = send


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [RankLost(), dist.DistError("Broken pipe")])
def test_a_save_that_loses_a_rank_leaves_no_checkpoint_and_no_traceback(tmp_path, world, error):
    snapshot = Snapshot({"pretrained_model": cast(PolicyFiles, SlowFiles())}, STATE)
    writer = CheckpointWriter(tmp_path, CONFIG, world, snapshot)
    saving = AsyncSave("1", writer, world, LostChannel(error))
    saving.start(lambda line: None)
    with pytest.raises(type(error)):
        saving.finish()
    assert newest_intact(tmp_path) is None


class TensorFiles(SlowFiles):
    """Writes a file of tensors."""

    def write(self, folder: Path) -> None:
        folder.mkdir()
        write_tensors(folder / "model.safetensors", {"w": torch.zeros(5000)})


def test_a_full_disk_does_not_end_a_run(tmp_path, world, monkeypatch, small_files):
    monkeypatch.setattr("manyhands.checkpoint.async_save.PAUSES_S", (0.0, 0.0))
    said = []
    saving = saving_of(tmp_path, TensorFiles(), world)
    with small_files(17_000):
        saving.start(said.append)
        saving.finish()
    assert saving.fault is not None
    assert "File too large" in saving.fault
    assert "training continues" in said[-1]
    assert [*(tmp_path / "checkpoints").iterdir()] == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_of_ours_is_not_kept_secret(tmp_path, world):
    policy = SlowFiles(ZeroDivisionError("ours"))
    policy.may_save.set()
    saving = saving_of(tmp_path, policy, world)
    saving.start(lambda line: None)
    with pytest.raises(ZeroDivisionError, match="ours"):
        saving.finish()
    assert newest_intact(tmp_path) is None


def test_a_removed_run_directory_is_not_made_again(tmp_path, world, monkeypatch):
    monkeypatch.setattr("manyhands.checkpoint.async_save.PAUSES_S", (0.0,))
    policy, said = SlowFiles(), []
    policy.may_save.set()
    saving = saving_of(tmp_path / "removed", policy, world)
    saving.start(said.append)
    saving.finish()
    assert saving.fault is not None
    assert "No such file or directory" in saving.fault
    assert not (tmp_path / "removed").exists()
