"""The training_state folder."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from manyhands.errors import CheckpointError
from manyhands.lerobot_format.checkpoint import (
    ScheduleState,
    TrainingState,
    read_training_state,
    write_training_state,
)


def state_of(optimizer: torch.optim.Optimizer, **changes) -> TrainingState:
    values = {
        "step": 7,
        "samples": 100,
        "num_ranks": 2,
        "batch_size": 4,
        "accumulation": 1,
        "optimizer": optimizer.state_dict(),
        "scaler": {"scale": 1024.0},
    }
    return TrainingState(**values | changes)


@pytest.fixture
def optimizer() -> torch.optim.Optimizer:
    network = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1)
    network(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    return optimizer


def test_what_is_written_is_read_back_bit_for_bit(tmp_path: Path, optimizer):
    state = state_of(optimizer)
    write_training_state(tmp_path, state)
    again = read_training_state(tmp_path)
    assert (again.step, again.samples, again.scaler) == (7, 100, {"scale": 1024.0})
    assert again.optimizer["state"].keys() == state.optimizer["state"].keys()
    for index, values in state.optimizer["state"].items():
        for name, value in values.items():
            assert torch.equal(again.optimizer["state"][index][name], value)
    fresh = torch.optim.AdamW(nn.Linear(3, 2).parameters(), lr=0.1)
    fresh.load_state_dict(again.optimizer)


def test_the_files_are_lerobots(tmp_path: Path, optimizer):
    schedule = ScheduleState([0.1], [0.05])
    write_training_state(tmp_path, state_of(optimizer, schedule=schedule))
    assert {path.name for path in tmp_path.iterdir()} == {
        "training_step.json",
        "optimizer_state.safetensors",
        "optimizer_param_groups.json",
        "scheduler_state.json",
        "rng_state.safetensors",
        "manyhands.json",
    }
    step = json.loads((tmp_path / "training_step.json").read_text())
    assert step == {
        "step": 7,
        "dp_world_size": 2,
        "batch_size": 4,
        "grad_accum_steps": 1,
        "parallelism": {"dp_replicate": 2, "dp_shard": 1, "ring_degree": 1, "ulysses_degree": 1},
    }
    schedule_file = json.loads((tmp_path / "scheduler_state.json").read_text())
    assert (schedule_file["last_epoch"], schedule_file["_last_lr"]) == (7, [0.05])
    (group,) = json.loads((tmp_path / "optimizer_param_groups.json").read_text())
    assert (group["lr"], group["initial_lr"]) == (0.05, 0.1)


def test_a_folder_of_lerobots_own_gives_its_position(tmp_path: Path, optimizer):
    write_training_state(tmp_path, state_of(optimizer))
    (tmp_path / "manyhands.json").unlink()
    assert read_training_state(tmp_path).samples == 7 * 4 * 2


@pytest.mark.parametrize(
    "name", ["training_step.json", "optimizer_state.safetensors", "optimizer_param_groups.json"]
)
def test_a_missing_or_damaged_file_is_named(tmp_path: Path, optimizer, name):
    write_training_state(tmp_path, state_of(optimizer))
    (tmp_path / name).write_text("{")
    with pytest.raises(CheckpointError, match=name):
        read_training_state(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        read_training_state(tmp_path)


def test_a_checkpoint_without_the_folder_is_named(tmp_path: Path):
    with pytest.raises(CheckpointError, match="cannot be resumed"):
        read_training_state(tmp_path / "training_state")
