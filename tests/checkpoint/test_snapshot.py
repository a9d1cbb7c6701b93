"""What a checkpoint is made of."""

import torch

from manyhands.checkpoint.snapshot import Position, Snapshot
from manyhands.lerobot_format.checkpoint import TrainingState
from manyhands.parallel.shards import Part


def test_a_position_counts_updates_and_samples():
    assert Position(3, 40).after(8) == Position(4, 48)


def test_the_size_of_all_that_is_written():
    moments = {0: {"exp_avg": torch.zeros(10), "step": torch.tensor(1.0)}}
    state = TrainingState(1, 8, 1, 8, 1, optimizer={"state": moments})
    policies = {"pretrained_model": {"w": torch.zeros(10)}, "pretrained_model_ema": None}
    parts = {"a": Part(torch.zeros(5, dtype=torch.float64), (0,))}
    assert Snapshot(policies, state, parts).num_bytes == 40 + 4 + 40 + 40
