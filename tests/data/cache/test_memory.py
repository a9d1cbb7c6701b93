"""Memory that may still be taken."""

import mmap

import numpy as np
import psutil
import pytest

from manyhands.data.cache import locations as memory
from manyhands.data.cache.locations import available_ram, mapped_bytes

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
    available = available_ram(tmp_path, tmp_path / "none")
    assert available == pytest.approx(psutil.virtual_memory().available, rel=0.2)
    assert available_ram() > 0


@pytest.mark.parametrize(
    ("line", "inner", "is_old"),
    [("0::/job/step", "job/step", False), ("9:memory:/job/step", "memory/job/step", True)],
)
def test_the_tightest_group_decides(tmp_path, line, inner, is_old):
    membership = tmp_path / "cgroup"
    membership.write_text(f"3:cpu:/elsewhere\n{line}\n")
    groups = tmp_path / "groups"
    make_group(groups / inner, 100 * MIB, 40 * MIB, 10 * MIB, is_old)
    assert available_ram(groups, membership) == 70 * MIB
    make_group((groups / inner).parent, 90 * MIB, 80 * MIB, 0, is_old)
    assert available_ram(groups, membership) == 10 * MIB


def test_a_group_without_a_limit_does_not_count(tmp_path):
    (tmp_path / "cgroup").write_text("0::/\n")
    make_group(tmp_path, "max", 40, 10)
    available = available_ram(tmp_path, tmp_path / "cgroup")
    assert available == pytest.approx(psutil.virtual_memory().available, rel=0.2)


def test_a_group_that_is_over_its_limit_has_nothing_left(tmp_path):
    (tmp_path / "cgroup").write_text("0::/\n")
    make_group(tmp_path, 100, 140, 10)
    assert available_ram(tmp_path, tmp_path / "cgroup") == 0


def test_what_was_touched_of_a_file_is_counted(tmp_path):
    (tmp_path / "file").write_bytes(bytes(8 * MIB))
    with (tmp_path / "file").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    before = mapped_bytes()
    np.frombuffer(mapped, np.uint8).sum()
    assert mapped_bytes() - before > 6 * MIB
    mapped.madvise(mmap.MADV_DONTNEED)
    assert mapped_bytes() - before < 2 * MIB


def test_where_the_system_does_not_tell_files_apart_all_memory_is_counted(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_OWN_PAGES", tmp_path / "none")
    assert mapped_bytes() == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
