"""The number of processes, and a run in them."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

import manyhands
from manyhands.config.launch.launcher import Launcher
from manyhands.config.policies.act import ActConfig
from manyhands.config.resolve import read_train_config
from manyhands.config.train import DatasetConfig, LaunchConfig
from manyhands.errors import ConfigError, EnvironmentFault, UserError
from manyhands.launch.outcome import Ending
from manyhands.launch.workers import Machines
from manyhands.stop import StopSignal
from manyhands.training.restarts import Placement
from manyhands.training.spawn import (
    machine_addresses,
    needs_workers,
    num_processes_of,
    places_that_compute,
    process_placement,
    refuse_bad_paths,
    refuse_missing_ids,
    refuse_unused_ids,
    simulator_modules,
    train_in_processes,
)

BASE = ["--policy=act", "--dataset.root=x"]


def test_a_launchers_processes_stand_and_a_contradiction_is_refused():
    config = read_train_config([*BASE, "--launch.num_processes=3"])
    started = Launcher(num_ranks=2, num_local_ranks=2, started_ranks=True)
    assert num_processes_of(config, Launcher()) == 3
    assert num_processes_of(read_train_config(BASE), started) == 2
    with pytest.raises(EnvironmentFault, match="num_processes=3"):
        needs_workers(config, started)


def test_environments_share_their_simulator_if_this_process_evaluates():
    def modules(*flags):
        return simulator_modules(read_train_config([*BASE, *flags]))

    assert "gym_pusht.envs.pusht" in modules("--env.type=pusht")
    assert modules() == modules("--env.type=pusht", "--env_eval_freq=0") == []
    assert modules("--env.type=pusht", "--eval.async=true") == []


def test_flags_about_processes_have_no_place_under_a_launcher():
    config = read_train_config([*BASE, "--launch.gpu_ids=[0, 1]"])
    started = Launcher(num_ranks=2, num_local_ranks=2, started_ranks=True)
    with pytest.raises(EnvironmentFault, match=r"--launch\.gpu_ids"):
        needs_workers(config, started)
    assert not needs_workers(config, replace(started, is_ours=True))
    assert not needs_workers(read_train_config(BASE), started)


def test_chosen_gpus_each_get_a_process(monkeypatch):
    config = read_train_config([*BASE, "--launch.gpu_ids=[0, 2]"])
    assert num_processes_of(config, Launcher()) == 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,6")
    with pytest.raises(EnvironmentFault, match=r"there is no GPU 2\..*counted from 0: 2"):
        refuse_missing_ids(config.launch)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,6,7")
    refuse_missing_ids(config.launch)


def test_a_choice_of_gpus_for_a_run_on_the_cpu_is_refused():
    config = read_train_config([*BASE, "--launch.gpu_ids=[0, 1]", "--policy.device=cpu"])
    with pytest.raises(EnvironmentFault, match=r"Use --launch\.num_processes=2"):
        refuse_unused_ids(config)
    refuse_unused_ids(read_train_config([*BASE, "--launch.gpu_ids=[0]"]))


def test_paths_are_looked_at_before_any_process_starts(tmp_path, tiny_dataset):
    file = tmp_path / "file"
    file.touch()
    flags = ["--policy=act", f"--dataset.root={tiny_dataset}"]
    good = [f"--output_dir={tmp_path / 'new'}", f"--cache.folder={tmp_path / 'cache'}"]
    refuse_bad_paths(read_train_config([*flags, *good]), Launcher())
    bad = read_train_config([*flags, f"--output_dir={file}", f"--cache.folder={file}"])
    with pytest.raises(ConfigError) as error:
        refuse_bad_paths(bad, Launcher())
    assert [fault.partition("=")[0] for fault in error.value.faults] == [
        "--output_dir",
        "--cache.folder",
    ]
    with pytest.raises(UserError, match="is not a LeRobot dataset"):
        refuse_bad_paths(read_train_config([*BASE]), Launcher())
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "run.json").touch()
    old = read_train_config([*flags, f"--output_dir={tmp_path / 'old'}"])
    with pytest.raises(ConfigError, match="already contains a run"):
        refuse_bad_paths(old, Launcher())
    # Ranks of a launcher look later, together.
    refuse_bad_paths(old, Launcher(started_ranks=True))
    # The process that starts workers has looked.
    refuse_bad_paths(bad, Launcher(is_ours=True))


def test_a_single_chosen_gpu_has_a_process_of_its_own():
    config = read_train_config([*BASE, "--launch.gpu_ids=[1]"])
    assert needs_workers(config, Launcher())


def test_one_process_with_several_gpus_needs_no_workers():
    config = read_train_config([*BASE, "--parallelism.gpus_per_process=2"])
    assert not needs_workers(config, Launcher())


@pytest.mark.parametrize(
    "flags",
    [
        ["--launch.gpu_ids=[0, 0]"],
        ["--launch.gpu_ids=[]"],
        ["--launch.gpu_ids=[0, 1]", "--launch.num_processes=3"],
        ["--launch.num_machines=2"],
        ["--launch.machine_rank=1"],
        ["--launch.main_address=node1"],
        ["--timeout_s=0"],
    ],
)
def test_flags_that_start_nothing_are_refused(flags):
    with pytest.raises(ConfigError, match=flags[0].split("=")[0]):
        read_train_config([*BASE, *flags])


def test_processes_meet_at_a_port_that_is_taken_at_once(monkeypatch):
    monkeypatch.delenv("MASTER_PORT", raising=False)
    alone = machine_addresses(LaunchConfig())
    assert alone.listener is not None
    assert alone.listener.getsockname()[1] == alone.port
    with pytest.raises(EnvironmentFault, match=f"port {alone.port}, set by --launch.main_port"):
        machine_addresses(LaunchConfig(main_port=alone.port))
    alone.listener.close()
    several = LaunchConfig(num_machines=2, machine_rank=1, main_address="node1", main_port=4000)
    assert machine_addresses(several) == Machines(4000, "node1", 2, 1)


def test_one_process_is_enough_without_a_gpu():
    config = read_train_config([*BASE, "--policy.device=cpu"])
    assert num_processes_of(config, Launcher()) == 1


@pytest.mark.new_interpreter
def test_a_run_on_one_gpu_need_not_wait_for_torch_to_count_it():
    program = (
        "import sys\n"
        "from manyhands.config.resolve import read_train_config\n"
        "from manyhands.config.launch.launcher import Launcher\n"
        "from manyhands.training.spawn import needs_workers\n"
        f"print(needs_workers(read_train_config({BASE!r}), Launcher()))\n"
        "print('torch' in sys.modules)\n"
    )
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "0"}
    told = subprocess.check_output([sys.executable, "-c", program], env=environment, timeout=60)
    assert told.split() == [b"False", b"False"]


def test_processes_without_gpus_keep_their_places():
    config = read_train_config([*BASE, "--policy.device=cpu", "--launch.max_restarts=1"])
    first = process_placement(config, Launcher())
    assert first == Placement(1)
    assert places_that_compute(first) == first


def test_chosen_gpus_are_named_and_without_any_that_computes_no_process_is_started(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "97,98,99")
    config = read_train_config([*BASE, "--launch.gpu_ids=[0, 2]"])
    first = process_placement(config, Launcher())
    assert first == Placement(2, ["97", "99"])
    with pytest.raises(EnvironmentFault, match="none of the GPUs 97, 99 responds"):
        places_that_compute(first)


@pytest.mark.process
def test_a_config_trains_in_worker_processes(command, tmp_path):
    flags = ("--steps=2", "--launch.num_processes=2")
    config = read_train_config(command.argv(tmp_path / "run", *flags))
    assert manyhands.train(config) is Ending.FINISHED
    assert (tmp_path / "run" / "checkpoints" / "last").exists()
    with pytest.raises(UserError, match="already contains a run"):
        manyhands.train(config)
    longer = replace(config, resume=str(tmp_path / "run"), steps=3)
    assert manyhands.train(longer) is Ending.FINISHED
    assert json.loads((tmp_path / "run" / "run.json").read_text())["resumed_at"] == 2


@pytest.mark.process
def test_workers_train_with_the_config_of_their_parent_and_resolve_nothing(command, tmp_path):
    flags = ("--epochs=1", "--batch_size=8", "--launch.num_processes=2", "--save_freq=1")
    config = read_train_config(command.argv(tmp_path / "run", *flags))
    refused = ["--config=gone.yaml", "--steps=many"]
    assert train_in_processes(config, Launcher(), refused, StopSignal()) == 0
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["command"] == ["manyhands", "train", *refused]
    assert facts["config"]["epochs"] == 1
    assert facts["config"]["steps"] == facts["budget"]["steps"]


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
