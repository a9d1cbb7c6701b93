"""Checkpoints are written whole and hold what LeRobot expects."""

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from manyhands.checkpoint.snapshot import Position, Snapshot
from manyhands.checkpoint.store import CheckpointStore
from manyhands.config.policies.act import ActConfig
from manyhands.config.resolve import read_train_config
from manyhands.config.runs.run_dir import newest_intact
from manyhands.config.train import TrainConfig
from manyhands.errors import CheckpointError, RankLost
from manyhands.lerobot_format.checkpoint import TrainingState
from manyhands.parallel.world import joined_world
from manyhands.policies.load import load_policy
from manyhands.training.start import run_training


def test_a_run_leaves_lerobots_layout(command, tmp_path):
    run_dir = tmp_path / "run"
    run_training(read_train_config(command.argv(run_dir, "--steps=4", "--save_freq=2")))
    checkpoints = run_dir / "checkpoints"
    assert sorted(path.name for path in checkpoints.iterdir()) == ["000002", "000004", "last"]
    assert (checkpoints / "last").readlink() == Path("000004")
    files = {path.name for path in (checkpoints / "last" / "pretrained_model").iterdir()}
    assert files == {
        "config.json",
        "model.safetensors",
        "policy_postprocessor.json",
        "policy_postprocessor_step_0_unnormalizer_processor.safetensors",
        "policy_preprocessor.json",
        "policy_preprocessor_step_3_normalizer_processor.safetensors",
        "train_config.json",
    }
    saved = json.loads((checkpoints / "last/pretrained_model/train_config.json").read_text())
    assert saved["steps"] == 4


class BrokenFiles:
    """Fails in the middle of a save, as a full disk does."""

    weights: Mapping[str, Tensor] = {}

    def without_weights(self) -> "BrokenFiles":
        return self

    def write(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "half").write_text("half")
        raise OSError(28, "No space left on device")


class BrokenLearner:
    """Cannot be saved."""

    files: Any = BrokenFiles()

    def snapshot(self, position: Position) -> Snapshot:
        state = TrainingState(position.step, position.samples, 1, 8, 1, optimizer={})
        return Snapshot({"pretrained_model": self.files}, state)

    def load_policy(self, folder: Path) -> None: ...

    def load_average(self, folder: Path) -> None: ...

    def load_training_state(self, state: TrainingState) -> list[str]: ...


def test_a_save_that_fails_leaves_the_last_checkpoint_and_says_so(command, tmp_path, monkeypatch):
    run_dir = tmp_path / "run"
    config = read_train_config(command.argv(run_dir, "--steps=2"))
    run_training(config)
    with joined_world(config) as world:
        store = CheckpointStore(run_dir, config, world)
        monkeypatch.setattr("manyhands.checkpoint.async_save.PAUSES_S", (0.0, 0.0))
        with pytest.raises(CheckpointError, match="No space left"), store.waiting_for_saves():
            store.save(Position(3, 24), BrokenLearner())
    messages = store.messages()
    assert ["retrying" in line for line in messages] == [True, True, False]
    assert "training continues" in messages[-1]
    assert sorted(path.name for path in (run_dir / "checkpoints").iterdir()) == ["000002", "last"]
    assert run_training(read_train_config([f"--resume={run_dir}", "--steps=3"]))


class SlowFiles(BrokenFiles):
    """Takes some time to write."""

    def write(self, folder: Path) -> None:
        time.sleep(0.3)
        folder.mkdir()


class SlowLearner(BrokenLearner):
    """Takes some time to save."""

    files = SlowFiles()

    def snapshot(self, position: Position) -> Snapshot:
        moments = {"state": {}, "param_groups": []}
        state = TrainingState(position.step, position.samples, 1, 8, 1, optimizer=moments)
        return Snapshot({"pretrained_model": self.files}, state)


@pytest.mark.parametrize("error", [ZeroDivisionError, RankLost, RuntimeError])
def test_a_save_in_flight_is_completed_whatever_ends_the_run(tmp_path, error):
    config = TrainConfig(policy=ActConfig(device="cpu"), steps=9)
    with joined_world(config) as world:
        store = CheckpointStore(tmp_path / "run", config, world)
        with pytest.raises(error), store.waiting_for_saves():
            store.save(Position(3, 24), SlowLearner())
            raise error
        assert newest_intact(tmp_path / "run") == tmp_path / "run/checkpoints/000003"


def test_damaged_weights_are_named_on_resume(command, tmp_path):
    run_dir = tmp_path / "run"
    run_training(read_train_config(command.argv(run_dir, "--steps=2")))
    file = run_dir / "checkpoints/last/pretrained_model/model.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        run_training(read_train_config([f"--resume={run_dir}", "--steps=3"]))


EMA = ("--steps=4", "--ema.enable=true", "--ema.max_decay=0.9")


def test_averaged_weights_are_a_policy_of_their_own(command, tmp_path):
    run_dir = tmp_path / "run"
    run_training(read_train_config(command.argv(run_dir, *EMA)))
    live, averaged = (
        run_dir / "checkpoints/last" / name for name in ("pretrained_model", "pretrained_model_ema")
    )
    names = [sorted(path.name for path in folder.iterdir()) for folder in (live, averaged)]
    assert names[0] == names[1]
    weights = load_policy(averaged).network.state_dict()
    others = load_policy(live).network.state_dict()
    assert all(torch.isfinite(value).all() for value in weights.values())
    assert not all(torch.equal(weights[name], others[name]) for name in weights)


def test_an_average_begun_late_starts_from_the_weights_and_says_so(command, tmp_path, capsys):
    run_dir = tmp_path / "run"
    run_training(read_train_config(command.argv(run_dir, "--steps=2")))
    flags = ("--steps=3", "--ema.enable=true", "--ema.decay=1")
    run_training(read_train_config([f"--resume={run_dir}", *flags]))
    assert "starts from the weights of step 2" in " ".join(capsys.readouterr().out.split())
    begun, averaged = (
        load_file(run_dir / "checkpoints" / folder / "model.safetensors")
        for folder in ("000002/pretrained_model", "000003/pretrained_model_ema")
    )
    assert all(torch.equal(averaged[name], value) for name, value in begun.items())


def test_an_average_that_was_lost_is_missed(command, tmp_path):
    run_dir = tmp_path / "run"
    run_training(read_train_config(command.argv(run_dir, *EMA)))
    shutil.rmtree(run_dir / "checkpoints/last/pretrained_model_ema")
    # A checkpoint of LeRobot's has nothing else to tell by.
    for name in ("manifest.json", "training_state/manyhands.json"):
        (run_dir / "checkpoints/last" / name).unlink()
    resume = [f"--resume={run_dir}", "--steps=5"]
    with pytest.raises(CheckpointError, match=r"pretrained_model_ema is missing.*--ema\.enable"):
        run_training(read_train_config(resume))
    run_training(read_train_config([*resume, "--ema.enable=false"]))
    assert not (run_dir / "checkpoints/last/pretrained_model_ema").exists()


def test_another_effective_batch_is_told_on_resume(command, tmp_path, capsys):
    run_dir = tmp_path / "run"
    run_training(read_train_config(command.argv(run_dir, "--steps=1")))
    run_training(read_train_config([f"--resume={run_dir}", "--steps=2", "--batch_size=3"]))
    assert "batch changed from 8 to 3 samples" in " ".join(capsys.readouterr().out.split())
