"""A repaired dataset has the items of the undamaged one, and the damaged one stays as it is."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.data.checking.check import CheckOptions, check_dataset
from manyhands.data.dataset import open_dataset
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.repairing.repair_dataset import UNKNOWN_TASK, repair_dataset
from manyhands.data.writing.output_files import SizeLimits
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

LENGTHS = (5, 3, 6)
TOP = "observation.images.top"
INDEX_COLUMNS = ("index", "frame_index", "timestamp", "episode_index", "task_index")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 12345\n"


def rows_without(*episodes: int) -> list[int]:
    """Rows of the dataset without some episodes."""
    numbers = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    return np.flatnonzero(~np.isin(numbers, episodes)).tolist()


def info(root: Path, **values: object) -> None:
    file = root / "meta/info.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def tables(root: Path, change) -> None:
    for path in sorted(root.glob("data/**/*.parquet")):
        pq.write_table(change(pq.read_table(path)), path)


def shape(root: Path, key: str, sizes: list[int]) -> None:
    document = json.loads((root / "meta/info.json").read_text())
    document["features"][key]["shape"] = sizes
    info(root, features=document["features"])


def undeclare(root: Path, *keys: str) -> None:
    document = json.loads((root / "meta/info.json").read_text())
    info(root, features={k: v for k, v in document["features"].items() if k not in keys})


def set_column(root: Path, name: str, value: int) -> None:
    def change(table):
        values = pa.array(np.full(table.num_rows, value))
        return table.set_column(table.column_names.index(name), name, values)

    tables(root, change)


def is_usable(root: Path) -> bool:
    """Whether the check of a dataset finds nothing that keeps it from being used."""
    meta = read_dataset_meta(root)
    source = Source(root, meta, select_episodes(meta.episodes, None))
    return check_dataset(source, CheckOptions(num_workers=0)).is_usable


@pytest.fixture
def repaired(tmp_path, files_of):
    """Damages a copy of a dataset, repairs it, and returns the report and the new folder."""

    def repair(source: Path, damage):
        root = tmp_path / "damaged"
        shutil.copytree(source, root)
        damage(root)
        before = files_of(root)
        report = repair_dataset(root, tmp_path / "repaired")
        assert files_of(root) == before
        assert is_usable(tmp_path / "repaired")
        return report, tmp_path / "repaired"

    return repair


# Damage of a version 3 dataset, and words of the report. All episodes can be repaired.
REPAIRABLE = {
    "no index columns": (
        lambda root: tables(root, lambda table: table.drop_columns(["index", "frame_index"])),
        "column index missing",
    ),
    "no episode_index": (
        lambda root: tables(root, lambda table: table.drop_columns(["episode_index"])),
        "column episode_index missing",
    ),
    "nothing that counts": (
        lambda root: tables(root, lambda table: table.drop_columns(list(INDEX_COLUMNS[:4]))),
        "column timestamp missing",
    ),
    "no timestamp": (
        lambda root: tables(root, lambda table: table.drop_columns(["timestamp"])),
        "column timestamp missing",
    ),
    "wrong index": (lambda root: set_column(root, "index", 0), "column index wrong values"),
    "moved videos": (
        lambda root: (root / "videos").rename(root / "video"),
        "it has no files, but video/ has",
    ),
    "wrong fps": (lambda root: info(root, fps=25), "fps is 25"),
    "wrong totals": (lambda root: info(root, total_frames=99), "total_frames is 99"),
    "wrong shape": (
        lambda root: shape(root, "observation.state", [7]),
        "observation.state is declared as float32 7",
    ),
    "wrong camera": (
        lambda root: shape(root, TOP, [64, 64, 3]),
        f"camera {TOP} is declared as 64x64x3",
    ),
    "undeclared": (
        lambda root: undeclare(root, "index", "task_index"),
        "features index, task_index are not declared",
    ),
    "no statistics": (lambda root: (root / "meta/stats.json").unlink(), ""),
    "no metadata of episodes": (
        lambda root: shutil.rmtree(root / "meta/episodes"),
        "meta/episodes.jsonl missing",
    ),
    "templates of version 2": (
        lambda root: info(root, data_path="data/{episode_chunk:03d}/{episode_index}.parquet"),
        "",
    ),
    "another version": (lambda root: info(root, codebase_version="v2.1"), "format v2.1"),
}


@pytest.mark.parametrize("name", REPAIRABLE)
def test_every_episode_of_version_3_is_repaired(plain_root, repaired, unlike, name):
    damage, told = REPAIRABLE[name]
    report, root = repaired(plain_root, damage)
    assert report.dropped_episodes == []
    assert unlike(plain_root, root) == set()
    faults = [f"{each.where} {each.fault}" for each in report.repairs]
    assert any(told in fault for fault in faults) or not told, faults


def test_an_undamaged_dataset_is_copied_without_repairs(plain_root, repaired, unlike):
    report, root = repaired(plain_root, lambda root: None)
    assert report.repairs == []
    assert unlike(plain_root, root) == set()
    ours, theirs = (open_dataset(root=each).stats for each in (root, plain_root))
    for key, stats in theirs.items():
        for name, value in stats.items():
            # Frames of videos are decoded again, which moves their statistics a little.
            assert ours[key][name] == pytest.approx(value, abs=0.1 if key == TOP else 1e-12)


def test_depth_is_copied_as_distances(plain_root, repaired, unlike, tmp_path):
    document = json.loads((plain_root / "meta/info.json").read_text())
    document["features"][TOP]["shape"] = [32, 48, 1]
    document["features"][TOP]["info"] |= {"is_depth_map": True, "depth_unit": "m"}
    report, root = repaired(plain_root, lambda root: info(root, features=document["features"]))
    assert report.repairs == []
    assert unlike(tmp_path / "damaged", root) == set()
    assert 0.01 <= read_dataset_meta(root).stats[TOP]["mean"].item() <= 10


V2_DATA = "data/chunk-000/episode_000001.parquet"
V2_VIDEO = f"videos/chunk-000/{TOP}/episode_000001.mp4"

# Damage of episode 1 of a version 2.1 dataset, and the fault that is reported.
DROPPED = {
    "pointer": (lambda root: (root / V2_DATA).write_bytes(POINTER), "is a Git LFS pointer"),
    "empty": (lambda root: (root / V2_DATA).write_bytes(b""), "is empty"),
    "truncated": (
        lambda root: (root / V2_DATA).write_bytes((root / V2_DATA).read_bytes()[:900]),
        "is damaged: truncated",
    ),
    "no data": (lambda root: (root / V2_DATA).unlink(), "no file has rows of the episode"),
    "no video": (lambda root: (root / V2_VIDEO).unlink(), "there is no video episode_000001.mp4"),
    "video pointer": (lambda root: (root / V2_VIDEO).write_bytes(POINTER), "is a Git LFS pointer"),
    "damaged video": (
        lambda root: (root / V2_VIDEO).write_bytes((root / V2_VIDEO).read_bytes()[:600]),
        "is damaged",
    ),
    "short video": (
        lambda root: shutil.copy(
            root / f"videos/chunk-000/{TOP}/episode_000001.mp4",
            root / f"videos/chunk-000/{TOP}/episode_000000.mp4",
        ),
        "episode_000000.mp4 has 3 of the 5 frames",
    ),
}


@pytest.mark.parametrize("name", DROPPED)
def test_an_episode_of_version_2_that_cannot_be_repaired_is_dropped(
    plain_root, old_root, repaired, unlike, name
):
    damage, told = DROPPED[name]
    report, root = repaired(old_root, damage)
    dropped = 0 if name == "short video" else 1
    assert report.dropped_episodes == [dropped]
    faults = [each.fault for each in report.repairs if each.episodes == (dropped,)]
    assert any(told in fault for fault in faults), report.repairs
    assert unlike(plain_root, root, rows_without(dropped)) <= {
        "index",
        "episode_index",
        "task_index",
    }


@pytest.mark.parametrize("folder", ["data", f"videos/{TOP}"])
@pytest.mark.parametrize("content", [None, POINTER])
def test_an_episode_of_version_3_without_its_file_is_dropped(
    record, tmp_path, repaired, unlike, folder, content
):
    record(tmp_path / "whole", limits=SizeLimits(1000, 1, 1))

    def damage(root):
        file = next(root.glob(f"{folder}/*/file-001.*"))
        file.unlink() if content is None else file.write_bytes(content)

    report, root = repaired(tmp_path / "whole", damage)
    assert report.dropped_episodes == [1]
    assert unlike(tmp_path / "whole", root, rows_without(1)) <= {"index", "episode_index"}


def test_a_dataset_with_all_faults_of_version_2_is_repaired(plain_root, old_root, repaired, unlike):
    def damage(root):
        tables(root, lambda table: table.drop_columns(list(INDEX_COLUMNS[:3])))
        (root / "meta/episodes.jsonl").unlink()
        (root / "meta/episodes_stats.jsonl").unlink()
        (root / "videos").rename(root / "video")
        info(root, fps=None, total_episodes=7)

    report, root = repaired(old_root, damage)
    assert report.dropped_episodes == []
    assert unlike(plain_root, root) == set()


def test_a_removed_episode_leaves_no_gap(plain_root, old_root, repaired, unlike):
    def damage(root):
        (root / V2_DATA).unlink()
        (root / V2_VIDEO).unlink()
        for name in ("meta/episodes.jsonl", "meta/episodes_stats.jsonl"):
            lines = (root / name).read_text().splitlines()
            (root / name).write_text("\n".join([lines[0], lines[2]]))

    report, root = repaired(old_root, damage)
    assert report.dropped_episodes == []
    assert unlike(plain_root, root, rows_without(1)) == {"index", "episode_index"}


def test_tasks_without_a_text_take_that_of_the_episode(plain_root, old_root, repaired):
    (_, root) = repaired(old_root, lambda root: (root / "meta/tasks.jsonl").unlink())
    texts = [open_dataset(root=root)[row]["task"] for row in range(14)]
    assert texts == ["task 0"] * 5 + ["task 1"] * 3 + ["task 2"] * 6


def test_an_unknown_task_is_named_so(old_root, repaired):
    def damage(root):
        (root / "meta/tasks.jsonl").unlink()
        (root / "meta/episodes.jsonl").unlink()

    _, root = repaired(old_root, damage)
    assert open_dataset(root=root)[0]["task"] == UNKNOWN_TASK


def test_a_damaged_image_drops_its_episode(plain_root, old_root, repaired, unlike):
    def damage(root):
        path = root / V2_DATA
        table = pq.read_table(path)
        images = table["observation.image"].to_pylist()
        images[2]["bytes"] = images[2]["bytes"][:40]
        place = table.column_names.index("observation.image")
        kind = table.schema.field(place)
        pq.write_table(table.set_column(place, kind, pa.array(images, kind.type)), path)

    report, _ = repaired(old_root, damage)
    assert report.dropped_episodes == [1]


def test_what_cannot_be_repaired_at_all_is_told_and_nothing_is_written(old_root, tmp_path):
    for path in old_root.glob("data/**/*.parquet"):
        path.write_bytes(POINTER)
    with pytest.raises(DatasetError, match=r"has no readable data file: .*is a Git LFS pointer"):
        repair_dataset(old_root, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_target_must_be_new_and_outside(plain_root, tmp_path):
    with pytest.raises(DatasetError, match="already exists"):
        repair_dataset(plain_root, tmp_path)
    with pytest.raises(DatasetError, match="is inside the dataset"):
        repair_dataset(plain_root, plain_root / "new")
