"""Checkpoints are written whole and hold what LeRobot expects."""

import json
from pathlib import Path

import pytest

from manyhands.checkpoint.store import CheckpointStore, Position
from manyhands.config.act import ActConfig
from manyhands.config.resolve import read_train_config
from manyhands.config.train import TrainConfig
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.checkpoint import TrainingState
from manyhands.parallel.world import joined_world
from manyhands.training.start import run_training


def test_a_position_counts_updates_and_samples():
    assert Position(3, 40).after(8) == Position(4, 48)


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


class BrokenLearner:
    """Fails in the middle of a save, as a full disk does."""

    def save_policy(self, folder: Path) -> None:
        (folder / "half").write_text("half")
        raise OSError(28, "No space left on device")

    def load_policy(self, folder: Path) -> None: ...

    def training_state(self, position: Position) -> TrainingState: ...

    def load_training_state(self, state: TrainingState) -> None: ...


def test_a_save_that_fails_leaves_the_last_checkpoint_and_says_so(command, tmp_path):
    run_dir = tmp_path / "run"
    config = read_train_config(command.argv(run_dir, "--steps=2"))
    run_training(config)
    with joined_world(config) as world:
        store = CheckpointStore(run_dir, config, world)
        with pytest.raises(CheckpointError, match="No space left"):
            store.save(Position(3, 24), BrokenLearner())
    assert sorted(path.name for path in (run_dir / "checkpoints").iterdir()) == ["000002", "last"]
    assert run_training(read_train_config([f"--resume={run_dir}", "--steps=3"]))


def test_a_fresh_run_starts_at_zero(tmp_path):
    config = TrainConfig(policy=ActConfig(device="cpu"))
    with joined_world(config) as world:
        store = CheckpointStore(tmp_path, config, world)
        assert store.restore(BrokenLearner()) == Position(0, 0)


def test_damaged_weights_are_named_on_resume(command, tmp_path):
    run_dir = tmp_path / "run"
    run_training(read_train_config(command.argv(run_dir, "--steps=2")))
    file = run_dir / "checkpoints/last/pretrained_model/model.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        run_training(read_train_config([f"--resume={run_dir}", "--steps=3"]))
