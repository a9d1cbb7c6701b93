"""The number of processes, and a run in them."""

import json
from dataclasses import replace

import pytest

import manyhands
from manyhands.config.act import ActConfig
from manyhands.config.launcher import Launcher
from manyhands.config.resolve import read_train_config
from manyhands.config.train import DatasetConfig
from manyhands.errors import EnvironmentFault, UserError
from manyhands.training.ending import Ending
from manyhands.training.processes import num_processes_of

BASE = ["--policy=act", "--dataset.root=x"]


def test_a_launchers_processes_stand_and_a_contradiction_is_refused():
    config = read_train_config([*BASE, "--launch.num_processes=3"])
    started = Launcher(num_ranks=2, num_local_ranks=2, started_ranks=True)
    assert num_processes_of(config, Launcher()) == 3
    assert num_processes_of(read_train_config(BASE), started) == 2
    with pytest.raises(EnvironmentFault, match="num_processes=3"):
        num_processes_of(config, started)


def test_one_process_is_enough_without_a_gpu():
    config = read_train_config([*BASE, "--policy.device=cpu"])
    assert num_processes_of(config, Launcher()) == 1


@pytest.mark.process
def test_a_config_trains_in_worker_processes(command, tmp_path):
    flags = ("--steps=2", "--launch.num_processes=2")
    config = read_train_config(command.argv(tmp_path / "run", *flags))
    assert manyhands.train(config) is Ending.FINISHED
    assert (tmp_path / "run" / "checkpoints" / "last").exists()
    with pytest.raises(UserError, match="exit code 2"):
        manyhands.train(config)
    longer = replace(config, resume=str(tmp_path / "run"), steps=3)
    assert manyhands.train(longer) is Ending.FINISHED
    assert json.loads((tmp_path / "run" / "run.json").read_text())["resumed_at"] == 2


def test_a_config_made_by_hand_trains(tiny_dataset, tmp_path):
    policy = ActConfig(chunk_size=4, n_action_steps=4, dim_model=16, n_heads=2, device="cpu")
    config = manyhands.TrainConfig(
        dataset=DatasetConfig(root=tiny_dataset),
        policy=policy,
        output_dir=tmp_path / "run",
        steps=1,
        num_workers=0,
    )
    assert manyhands.train(config) is Ending.FINISHED
