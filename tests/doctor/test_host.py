"""Limits of a machine that a run would meet later."""

import resource
from pathlib import Path

from manyhands.doctor import host
from manyhands.doctor.host import (
    check_disk,
    check_host,
    check_open_files,
    check_shared_memory,
    disk_speed,
    memory_line,
)
from manyhands.observe.host_memory import HostMemory


def test_this_machine_is_checked_in_a_few_seconds(tmp_path):
    checks = {check.name: check for check in check_host(tmp_path)}
    assert {"host", "open files", "disk", "clock"} <= set(checks)
    assert checks["clock"].state == "ok"
    assert list(tmp_path.iterdir()) == []


def test_the_limit_of_a_job_is_its_memory():
    limited = HostMemory(32 << 30, 2 << 30, 256 << 30)
    assert memory_line(limited) == (
        "32.0 GiB memory (limit of this job; the machine has 256.0 GiB), 2.0 GiB available"
    )
    assert "limit" not in memory_line(HostMemory(32 << 30, 2 << 30, 32 << 30))


def test_the_speed_of_a_disk_is_measured(tmp_path):
    write, read = disk_speed(tmp_path)
    assert write > 1e5 and read > 1e5


def test_a_folder_that_cannot_be_written_is_a_failure(tmp_path):
    check = check_disk(tmp_path / "gone")
    assert check.state == "fail" and "No such file" in check.found


def test_a_slow_or_full_disk_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "MIN_BYTES_PER_S", 1e15)
    monkeypatch.setattr(host, "MIN_FREE_BYTES", 0)
    assert "--output_dir" in check_disk(tmp_path).remedy
    monkeypatch.setattr(host, "MIN_FREE_BYTES", 1 << 60)
    assert "--keep_last" in check_disk(tmp_path).remedy


def test_little_shared_memory_is_a_warning(tmp_path, monkeypatch):
    (check,) = check_shared_memory(tmp_path)
    assert check.state == "ok"
    monkeypatch.setattr(host, "MIN_SHM_BYTES", 1 << 60)
    (check,) = check_shared_memory(tmp_path)
    assert check.state == "warn" and "--shm-size" in check.remedy
    assert [*check_shared_memory(Path("/nowhere"))] == []


def test_a_low_limit_of_open_files_is_a_warning():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, before[1]))
    try:
        check = check_open_files()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert check.state == "warn" and "ulimit -n" in check.remedy
