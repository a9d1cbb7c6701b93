"""Cores at hand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from manyhands.cores import cgroup_cores, num_cores


def test_there_is_at_least_one_core():
    assert 1 <= num_cores() <= (os.cpu_count() or 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux pins processes to cores")
def test_a_pinned_process_counts_its_own_cores():
    program = (
        "import os; os.sched_setaffinity(0, [0]); from manyhands.cores import *; print(num_cores())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "1"


def plant(root: Path, own: str, files: dict[str, str]) -> int:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "own").write_text(own)
    return cgroup_cores(root, root / "own")


UNLIMITED = sys.maxsize
V1 = ("cpu,cpuacct/job/cpu.cfs_quota_us", "cpu,cpuacct/job/cpu.cfs_period_us")


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "10000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "max 100000\n"}, UNLIMITED),
        ("0::/pod/job\n", {"pod/cpu.max": "400000 100000", "pod/job/cpu.max": "max 100000"}, 4),
        ("0::/pod/job\n", {"pod/cpu.max": "400000 100000", "pod/job/cpu.max": "300000 100000"}, 3),
        ("0::/seen/from/outside\n", {"cpu.max": "250000 100000"}, 3),
        ("2:cpu,cpuacct:/job\n", {V1[0]: "700000\n", V1[1]: "100000\n"}, 7),
        ("2:cpu,cpuacct:/job\n", {V1[0]: "-1\n", V1[1]: "100000\n"}, UNLIMITED),
        ("3:cpuset:/job\n", {V1[0]: "700000\n", V1[1]: "100000\n"}, UNLIMITED),
        ("0::/\n", {"cpu.max": "nonsense"}, UNLIMITED),
        ("", {}, UNLIMITED),
    ],
)
def test_quotas_of_containers_and_jobs_count(tmp_path, own, files, cores):
    assert plant(tmp_path, own, files) == cores


def test_a_system_without_groups_sets_no_limit(tmp_path):
    assert cgroup_cores(tmp_path / "none", tmp_path / "missing") == UNLIMITED
