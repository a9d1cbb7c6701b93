"""Columns in files of their own."""

import os
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from manyhands.data.episodes import Source, select_episodes
from manyhands.data.frame_table import MANIFEST, TABLES_FOLDER, open_table
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

DEADLINE_S = 60


def source_of(root, episodes=None) -> Source:
    meta = read_dataset_meta(root)
    return Source(root, meta, select_episodes(meta.episodes, episodes))


def tables_in(home) -> list[str]:
    return sorted(path.name for path in (home / TABLES_FOLDER).iterdir() if path.is_dir())


def test_a_table_is_built_once_and_holds_what_the_files_hold(record, tmp_path):
    frames = record(tmp_path / "dataset", (3, 2))
    first = open_table(source_of(tmp_path / "dataset"), tmp_path / "home")
    stamps = {path: path.stat().st_mtime_ns for path in first.folder.iterdir()}
    again = open_table(source_of(tmp_path / "dataset"), tmp_path / "home")
    assert {path: path.stat().st_mtime_ns for path in again.folder.iterdir()} == stamps
    for key in ("observation.state", "observation.grid", "observation.counts", "action"):
        stacked = np.stack([frame[key] for frame in frames])
        assert np.array_equal(again.numbers[key].values, stacked.astype(again.numbers[key].dtype))
    assert again.objects == ["note"]


def test_only_files_of_chosen_episodes_are_needed_and_frames_keep_their_numbers(damaged_root):
    whole = open_table(source_of(damaged_root), damaged_root / "home")
    (damaged_root / "data" / "chunk-000" / "file-000.parquet").unlink()
    part = open_table(source_of(damaged_root, [1]), damaged_root / "home")
    whole_state, part_state = (each.numbers["observation.state"].values for each in (whole, part))
    assert np.array_equal(part_state[3:], whole_state[3:])
    assert not part_state[:3].any()


def test_a_changed_file_never_yields_what_it_held_before(damaged_root):
    home = damaged_root / "home"
    path = damaged_root / "data" / "chunk-000" / "file-000.parquet"
    before = open_table(source_of(damaged_root), home).numbers["action"].values.copy()
    status, table = path.stat(), pq.read_table(path)
    swapped = table["action"].take([2, 1, 0])
    changed = table.set_column(table.column_names.index("action"), "action", swapped)
    pq.write_table(changed, path)
    # Even when its time is set back to what it was.
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = open_table(source_of(damaged_root), home).numbers["action"].values
    assert np.array_equal(after[:3], before[2::-1])


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "manifest"])
def test_a_damaged_table_is_built_anew(plain_root, tmp_path, damage):
    table = open_table(source_of(plain_root), tmp_path)
    expected = table.numbers["action"].values.copy()
    path = table.numbers["action"].path
    match damage:
        case "flip":
            content = bytearray(path.read_bytes())
            content[5] ^= 1
            path.write_bytes(content)
        case "cut":
            os.truncate(path, 7)
        case "gone":
            path.unlink()
        case "manifest":
            (table.folder / MANIFEST).write_text("{")
    assert np.array_equal(
        open_table(source_of(plain_root), tmp_path).numbers["action"].values, expected
    )


OPEN = """
import sys
from pathlib import Path
from manyhands.data.dataset import open_dataset
from manyhands.data.read_options import ReadOptions
print("ready", flush=True)
dataset = open_dataset(root=sys.argv[1], reading=ReadOptions(home=Path(sys.argv[2])))
print(float(dataset.batch(range(len(dataset)))["action"].sum()))
"""


def start_opening(root, home) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OPEN, str(root), str(home)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_many_processes_build_one_table_together(plain_root, tmp_path):
    processes = [start_opening(plain_root, tmp_path) for _ in range(3)]
    # Not by communicate(), which misses what came together with the first line.
    sums = {process.stdout.read() for process in processes}
    assert [process.wait(DEADLINE_S) for process in processes] == [0, 0, 0]
    assert len(sums) == 1 and sums != {""}
    assert len(tables_in(tmp_path)) == 1


def test_a_builder_killed_at_any_moment_leaves_no_wrong_table(record, tmp_path):
    record(tmp_path / "dataset", (4, 4))
    expected = open_table(source_of(tmp_path / "dataset"), tmp_path / "expected").numbers
    for attempt in range(6):
        home = tmp_path / f"home{attempt}"
        builder = start_opening(tmp_path / "dataset", home)
        time.sleep(attempt * 0.008)
        builder.kill()
        builder.communicate(timeout=DEADLINE_S)
        found = open_table(source_of(tmp_path / "dataset"), home).numbers
        for key, values in expected.items():
            assert np.array_equal(found[key].values, values.values)


def test_a_column_that_is_there_twice_is_told(damaged_root, tmp_path):
    path = damaged_root / "data/chunk-001/file-000.parquet"
    content = pq.read_table(path)
    pq.write_table(content.append_column("observation.image", content["observation.image"]), path)
    table = open_table(source_of(damaged_root), tmp_path)
    with pytest.raises(DatasetError, match=r"file-000\.parquet has several columns"):
        table.check("observation.image")


def test_a_fault_in_a_column_is_told_only_to_who_reads_it(damaged_root):
    path = damaged_root / "data" / "chunk-001" / "file-000.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["next.reward"]), path)
    table = open_table(source_of(damaged_root), damaged_root / "home")
    table.check("action")
    with pytest.raises(
        DatasetError, match=r"chunk-001/file-000\.parquet has no column next\.reward"
    ):
        table.check("next.reward")


FULL_DISK = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from manyhands.data.dataset import open_dataset
from manyhands.data.read_options import ReadOptions
from manyhands.errors import DatasetError
try:
    open_dataset(root=sys.argv[1], reading=ReadOptions(home=Path(sys.argv[2])))
except DatasetError as error:
    print(error)
"""


def test_a_full_disk_is_told_with_the_folder_and_what_to_do(plain_root, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, plain_root, tmp_path],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert "cannot cache the columns" in done.stdout and "MANYHANDS_HOME" in done.stdout
    assert tables_in(tmp_path) == []
