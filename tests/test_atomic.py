"""Whole or not at all."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from manyhands.atomic import atomic_directory, atomic_file, replace_symlink


def test_a_file_appears_only_when_its_block_succeeds(tmp_path: Path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), atomic_file(target) as scratch:
        scratch.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    with atomic_file(target) as scratch:
        scratch.write_text("new")
        assert target.read_text() == "old"
    with target.open() as reader:
        with atomic_file(target) as scratch:
            scratch.write_text("newer")
        # Whoever had the old file open still reads all of it: it was replaced, not written over.
        assert reader.read() == "new"
    assert target.read_text() == "newer"


def test_a_write_that_fails_names_the_file_it_was_for(tmp_path: Path, small_files):
    target = tmp_path / "a.txt"
    with (
        small_files(10),
        pytest.raises(OSError, match="File too large") as failed,
        atomic_file(target) as outer,
        atomic_file(outer) as scratch,
    ):
        scratch.write_text("x" * 100)
    assert failed.value.filename == str(target)
    with pytest.raises(FileNotFoundError) as failed, atomic_file(target):
        (tmp_path / "other").read_text()
    assert failed.value.filename == str(tmp_path / "other")
    missing = tmp_path / "none" / "a"
    with pytest.raises(FileNotFoundError) as failed, atomic_file(missing) as scratch:
        scratch.write_text("x")
    assert failed.value.filename == str(missing)


def test_a_directory_appears_only_when_its_block_succeeds(tmp_path: Path):
    target = tmp_path / "d"
    for content in ("one", "two"):
        with atomic_directory(target) as scratch:
            (scratch / "sub").mkdir()
            (scratch / "sub" / "f").write_text(content)
        assert (target / "sub" / "f").read_text() == content
    with pytest.raises(RuntimeError), atomic_directory(target) as scratch:
        (scratch / "other").write_text("half")
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["d"]
    assert (target / "sub" / "f").read_text() == "two"


def test_a_link_is_replaced_without_a_gap(tmp_path: Path):
    link = tmp_path / "last"
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
        replace_symlink(link, name)
        assert link.readlink() == Path(name)


def test_a_reader_never_sees_a_part_while_a_writer_is_killed(tmp_path: Path):
    writer = (
        "import sys, pathlib\n"
        "from manyhands.atomic import atomic_directory, replace_symlink\n"
        "root = pathlib.Path(sys.argv[1])\n"
        "for number in range(10**6):\n"
        "    with atomic_directory(root / str(number)) as scratch:\n"
        "        for name in 'abc':\n"
        "            (scratch / name).write_text('x' * 10000)\n"
        "    replace_symlink(root / 'last', str(number))\n"
    )
    for delay in (0.05, 0.11, 0.17):
        root = tmp_path / str(delay)
        root.mkdir()
        process = subprocess.Popen([sys.executable, "-c", writer, str(root)])
        deadline = time.monotonic() + 60
        while not (root / "last").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(delay)
        process.kill()
        process.wait()
        whole = [path for path in root.iterdir() if path.name.isdecimal()]
        assert whole
        for folder in whole:
            assert sorted(path.stat().st_size for path in folder.iterdir()) == [10000] * 3
        assert (root / "last" / "a").exists()
