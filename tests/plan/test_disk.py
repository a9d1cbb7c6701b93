"""Checkpoints of a run, foretold."""

from dataclasses import replace

import pytest

import manyhands
from manyhands.config.launch.launcher import Launcher
from manyhands.config.resolve import read_train_config
from manyhands.parallel.strategy import resolve_strategy
from manyhands.plan.memory import checkpoint_disk, model_sizes, num_kept
from manyhands.plan.plan import CPU
from manyhands.training.setup.assemble import build_initial_policy
from manyhands.training.setup.data import alone, open_training_data

SIZES = ("--policy.dim_model=128", "--policy.dim_feedforward=512")


@pytest.mark.parametrize("flags", [(), ("--ema.enable=true",)])
def test_a_checkpoint_takes_what_was_told(command, tmp_path, flags):
    argv = command.argv(tmp_path / "run", "--steps=1", "--batch_size=2", *SIZES, *flags)
    config = read_train_config(argv)
    manyhands.train(config)
    data, config = open_training_data(config, alone)
    policy, _ = build_initial_policy(config, data.stats, CPU)
    strategy = resolve_strategy(config, Launcher())
    disk = checkpoint_disk(model_sizes(policy.network, config, strategy), config, strategy)
    files = [path for path in (tmp_path / "run/checkpoints/last").rglob("*") if path.is_file()]
    assert disk.checkpoint_bytes == pytest.approx(
        sum(path.stat().st_size for path in files), rel=0.1
    )


@pytest.mark.parametrize(
    ("flags", "number"),
    [
        ({}, 5),
        ({"save_freq": 30}, 4),
        ({"save_freq": 0}, 1),
        ({"save_checkpoint": False}, 0),
        ({"keep_last": 1}, 2),
        ({"keep_last": 2, "keep_best": "held_out_loss"}, 4),
        ({"keep_last": 1, "keep_every": 50}, 4),
        ({"keep_last": 9}, 5),
    ],
)
def test_checkpoints_that_are_kept_are_counted(planned, flags, number):
    config, _ = planned()
    assert num_kept(replace(config, **({"steps": 100, "save_freq": 20} | flags))) == number
