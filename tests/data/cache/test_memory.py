"""Memory of mapped files."""

import mmap

import numpy as np
import psutil
import pytest

from manyhands.data.cache import locations as memory
from manyhands.data.cache.locations import mapped_bytes

MIB = 1024**2


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
