"""Memory that this process may use, and what is left of it."""

import psutil
import pytest

from manyhands.observe import load_sampler, machine
from manyhands.observe.host_memory import HostMemory, host_memory

MIB = 1024**2


def make_group(folder, limit, used, reclaimable, is_old=False):
    names = ("memory.max", "memory.current", "inactive_file")
    if is_old:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {reclaimable}\n")


def test_without_groups_it_is_what_the_machine_has(tmp_path):
    available = host_memory(tmp_path, tmp_path / "none").available_bytes
    assert available == pytest.approx(psutil.virtual_memory().available, rel=0.2)
    assert host_memory().available_bytes > 0


@pytest.mark.parametrize(
    ("line", "inner", "is_old"),
    [("0::/job/step", "job/step", False), ("9:memory:/job/step", "memory/job/step", True)],
)
def test_the_tightest_group_decides(tmp_path, line, inner, is_old):
    membership = tmp_path / "cgroup"
    membership.write_text(f"3:cpu:/elsewhere\n{line}\n")
    groups = tmp_path / "groups"
    make_group(groups / inner, 100 * MIB, 40 * MIB, 10 * MIB, is_old)
    assert host_memory(groups, membership).available_bytes == 70 * MIB
    found = host_memory(groups, membership)
    assert (found.total_bytes, found.used_bytes) == (100 * MIB, 30 * MIB)
    assert found.machine_bytes == psutil.virtual_memory().total
    make_group((groups / inner).parent, 90 * MIB, 80 * MIB, 0, is_old)
    assert host_memory(groups, membership).available_bytes == 10 * MIB


def test_a_group_without_a_limit_does_not_count(tmp_path):
    (tmp_path / "cgroup").write_text("0::/\n")
    make_group(tmp_path, "max", 40, 10)
    available = host_memory(tmp_path, tmp_path / "cgroup").available_bytes
    assert available == pytest.approx(psutil.virtual_memory().available, rel=0.2)


def test_a_group_that_is_over_its_limit_has_nothing_left(tmp_path):
    (tmp_path / "cgroup").write_text("0::/\n")
    make_group(tmp_path, 100, 140, 10)
    assert host_memory(tmp_path, tmp_path / "cgroup").available_bytes == 0


def test_a_limit_counts_in_rows_and_facts_of_a_run(tmp_path, monkeypatch):
    limited = HostMemory(32 << 30, 2 << 30, 256 << 30)
    for module in (load_sampler, machine):
        monkeypatch.setattr(module, "host_memory", lambda: limited)
    assert machine.hardware()["memory_bytes"] == 32 << 30
    assert load_sampler.read_host(tmp_path)["host_memory_bytes"] == 30 << 30
