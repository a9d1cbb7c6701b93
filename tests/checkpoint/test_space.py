"""The disk space of a checkpoint is known before it is written."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from manyhands.checkpoint.snapshot import Position, Snapshot
from manyhands.checkpoint.writer import CheckpointWriter, disk_usage, tensor_files_bytes
from manyhands.config.resolve import read_train_config
from manyhands.lerobot_format.checkpoint import TrainingState
from manyhands.parallel.sharded_tensors import TensorShard
from manyhands.parallel.world import joined_world
from manyhands.training.setup.assemble import assemble

FLAGS = ("--policy.dim_model=64", "--policy.dim_feedforward=128", "--steps=1")


@pytest.mark.parametrize("flags", [(), ("--ema.enable=true",)], ids=["weights", "average"])
def test_a_checkpoint_takes_what_was_estimated(command, tmp_path, flags):
    config = read_train_config(command.argv(tmp_path, *FLAGS, *flags))
    with joined_world(config) as world:
        run = assemble(config, tmp_path, world)
        run.learner.train_step(next(run.stream.starting_at(0)), 0)
        snapshot = run.learner.snapshot(Position(1, 8))
        files = CheckpointWriter(tmp_path, run.config, world, snapshot)
        files.check_disk_space()
        needed = files.needed_bytes()
        assert [*(tmp_path / "checkpoints").iterdir()] == []
        files.write({})
    taken = disk_usage(tmp_path / "checkpoints/000001")
    assert taken <= needed < 1.03 * taken


def test_shards_of_all_ranks_count_and_whole_weights_count_once(tmp_path: Path):
    state = TrainingState(1, 8, 1, 8, 1, optimizer={"state": {}}, is_sharded=True)
    policies: Any = {
        "pretrained_model": SimpleNamespace(weights={"w": torch.zeros(10_000)}),
        "pretrained_model_ema": SimpleNamespace(weights={}),
    }
    parts = {"a": TensorShard(torch.zeros(2_500), (0,))}
    whole, parts_alone = 40_000, 4 * 10_000
    size = tensor_files_bytes(Snapshot(policies, state, parts), num_shards=4, block=512)
    assert whole + parts_alone < size < 1.1 * (whole + parts_alone)
