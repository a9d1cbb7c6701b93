"""Jobs that cannot be are refused with the flag to change."""

from pathlib import Path

import pytest

from manyhands.config.launch.slurm import SlurmConfig, seconds_of


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        ("30", 30 * 60),
        ("30:15", 30 * 60 + 15),
        ("24:00:00", 24 * 3600),
        ("2-12", 60 * 3600),
        ("2-12:30", 60 * 3600 + 30 * 60),
        ("1-00:00:01", 24 * 3600 + 1),
        ("tomorrow", None),
        ("1:2:3:4", None),
        ("", None),
    ],
)
def test_time_limits_are_read_as_slurm_reads_them(limit, seconds):
    assert seconds_of(limit) == seconds


def test_there_is_a_process_per_gpu_unless_told_otherwise():
    assert SlurmConfig(gpus_per_node=4).num_processes == 4
    assert SlurmConfig(gpus_per_node=4, processes_per_node=1).num_processes == 1
    assert SlurmConfig(gpus_per_node=0, processes_per_node=3).num_processes == 3


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"nodes": 0}, "--nodes=0 must be at least 1"),
        ({"gpus_per_node": -1}, "--gpus_per_node=-1 must be at least 0"),
        ({"gpus_per_node": 0}, "Set --processes_per_node=N"),
        ({"gpus_per_node": 2, "processes_per_node": 4}, "Use one process per GPU"),
        ({"cpus_per_task": 0}, "--cpus_per_task=0"),
        ({"time": "a day"}, "--time=a day is not a time limit"),
        ({"time": "1", "signal_s": 120}, "--signal_s=120 must be shorter than --time=1"),
        ({"signal_s": -1}, "--signal_s=-1"),
        ({"signal_s": 70_000}, "at most 65535"),
        ({"mem": "much"}, "--mem=much"),
        ({"env": {"A B": "1"}}, "A B is not a variable name"),
        ({"options": ["exclusive"]}, "exclusive is not an sbatch option"),
        ({"partition": "gpu\n#SBATCH --nodes=9"}, "would break a line"),
        ({"setup": ["a\nb"]}, "would break a line"),
        ({"env": {"A": "1\n2"}}, "would break a line"),
        ({"script": Path("a\nb")}, "would break a line"),
    ],
)
def test_what_no_job_can_be_made_of_is_told(values, told):
    (fault,) = SlurmConfig(**values).faults()
    assert told in fault


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"nodes": 2, "gpus_per_node": 4, "partition": "gpu", "time": "24:00:00", "mem": "64G"},
        {"gpus_per_node": 4, "processes_per_node": 1},
        {"signal_s": 0, "time": "1"},
        {"options": ["--exclusive", "-w node1"], "env": {"NCCL_SOCKET_IFNAME": "ib0"}},
    ],
)
def test_sound_jobs_have_no_fault(values):
    assert SlurmConfig(**values).faults() == []
