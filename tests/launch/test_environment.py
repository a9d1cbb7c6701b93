"""The launcher of this process."""

import os
from pathlib import Path

import pytest

from manyhands.launch.environment import (
    current_launcher,
    num_set_visible,
    resolved_config_file,
    restarts_so_far,
    same_library_path,
    user_port,
    visible_gpus,
)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    """Variables that a test sets, and those that are set for it, go again."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


def test_the_environment_is_read_when_asked():
    os.environ.update({"RANK": "1", "WORLD_SIZE": "2"})
    assert current_launcher().rank == 1


def test_a_task_of_srun_becomes_a_rank():
    os.environ.update(
        {
            "SLURM_PROCID": "1",
            "SLURM_STEP_NUM_TASKS": "2",
            "SLURM_JOB_NODELIST": "node[3-4]",
            "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
            "SLURM_NODEID": "1",
        }
    )
    launcher = current_launcher()
    assert (launcher.rank, launcher.num_ranks, launcher.num_local_ranks) == (1, 2, 1)
    assert (launcher.started_ranks, launcher.main_address) == (True, "node3")
    assert current_launcher() == launcher


def test_what_manyhands_does_itself_is_no_longer_told_to_accelerate():
    os.environ |= {"ACCELERATE_USE_FSDP": "true", "ACCELERATE_MIXED_PRECISION": "bf16"}
    launcher = current_launcher()
    assert launcher.fsdp is not None and current_launcher() == launcher
    assert "ACCELERATE_USE_FSDP" not in os.environ
    assert os.environ["ACCELERATE_MIXED_PRECISION"] == "bf16"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, "lo"),
        ({"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, None),
        ({"RANK": "0", "WORLD_SIZE": "2"}, None),
        (
            {
                "RANK": "0",
                "WORLD_SIZE": "2",
                "LOCAL_WORLD_SIZE": "2",
                "GLOO_SOCKET_IFNAME": "eth0",
            },
            "eth0",
        ),
    ],
)
def test_ranks_of_one_machine_talk_over_its_loopback_device(variables, expected, monkeypatch):
    monkeypatch.setattr("socket.if_nameindex", lambda: [(1, "lo"), (2, "eth0")])
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GLOO_SOCKET_IFNAME"):
        os.environ.pop(name, None)
    os.environ.update(variables)
    current_launcher()
    assert os.environ.get("GLOO_SOCKET_IFNAME") == expected


def test_gpus_are_counted_among_the_visible_ones():
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    assert (visible_gpus([0, 2]), num_set_visible()) == (["0", "2"], None)
    os.environ["CUDA_VISIBLE_DEVICES"] = "4, 5,GPU-aa"
    assert (visible_gpus([0, 2]), num_set_visible()) == (["4", "GPU-aa"], 3)


def test_a_port_counts_that_a_person_set():
    os.environ["MASTER_PORT"] = "4000"
    assert user_port() == 4000
    os.environ["ACCELERATE_MIXED_PRECISION"] = "no"
    assert user_port() is None


def test_restarts_are_those_that_our_launcher_tells_of():
    os.environ.pop("MANYHANDS_RESTARTS", None)
    assert restarts_so_far() == []
    os.environ["MANYHANDS_RESTARTS"] = '[{"rank": 1, "step": 20}]'
    assert restarts_so_far() == [{"rank": 1, "step": 20}]


def test_a_resolved_config_is_for_one_process_alone():
    assert resolved_config_file() is None
    os.environ["MANYHANDS_RESOLVED"] = "/somewhere/config.json"
    assert resolved_config_file() == Path("/somewhere/config.json")
    assert resolved_config_file() is None


@pytest.mark.parametrize("before", [None, "/opt/lib"])
def test_the_library_path_is_as_before_whatever_changes_it(before):
    os.environ.pop("LD_LIBRARY_PATH", None)
    if before is not None:
        os.environ["LD_LIBRARY_PATH"] = before
    with same_library_path():
        os.environ["LD_LIBRARY_PATH"] = "/elsewhere"
    assert os.environ.get("LD_LIBRARY_PATH") == before
