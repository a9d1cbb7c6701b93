"""Exit codes of programs on the engine."""

import sys

import pytest

from manyhands.config.engine import EngineConfig
from manyhands.config.launch.launcher import Launcher
from manyhands.engine.session import for_device
from manyhands.training.spawn import needs_workers

FAILING = """
import sys
import manyhands
from manyhands.errors import UserError
with manyhands.Engine(["--device=cpu", *sys.argv[1:]]) as engine:
    engine.world.barrier()
    if engine.world.rank == 1:
        raise {error}
    engine.world.barrier()
"""
SRUN = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
TWO = "--launch.num_processes=2"


@pytest.mark.parametrize(
    ("device", "is_counted"),
    [(None, True), ("cuda", True), ("cpu", False), ("cuda:1", False)],
)
def test_one_process_per_gpu_is_for_those_that_use_all_gpus(device, is_counted):
    assert for_device(device, Launcher()).use_cpu is not is_counted
    assert not needs_workers(EngineConfig(device="cpu").run, for_device("cpu", Launcher()))


@pytest.mark.process
def test_a_usage_error_of_one_rank_is_printed_once_without_a_traceback(command):
    program = FAILING.format(error='UserError("a fault of the user")')
    printed = command.run([sys.executable, "-c", program, TWO], code=2)
    assert printed.count("a fault of the user") == 1 and "Traceback" not in printed


@pytest.mark.process
def test_a_bug_of_one_rank_shows_its_traceback_and_ends_all(command):
    program = FAILING.format(error='ValueError("a bug")')
    printed = command.run([sys.executable, "-c", program, TWO], code=1)
    assert printed.count("ValueError: a bug") == 1 and printed.count("Traceback") == 1


def test_a_single_process_raises(command):
    program = "import manyhands\nmanyhands.Engine(['--device=gpu'])"
    printed = command.run([sys.executable, "-c", program], code=1)
    assert "ConfigError: --device=gpu is not cpu" in printed


@pytest.mark.process
def test_flags_that_contradict_the_launcher_are_named(command):
    program = FAILING.format(error="AssertionError")
    ranks = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    printed = command.run([sys.executable, "-c", program, TWO], code=1, changes=ranks)
    assert "--launch.num_processes=2, but the launcher started 1 processes" in printed
