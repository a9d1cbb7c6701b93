"""Damaged datasets are refused when they are opened or read, with the file's name."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.data.dataset import open_dataset
from manyhands.errors import DatasetError

DATA = "data/chunk-001/file-000.parquet"
VIDEO = "videos/observation.images.top/chunk-001/file-000.mp4"


def read_all(root: Path) -> dict:
    dataset = open_dataset(root=root)
    return dataset.batch(range(len(dataset)))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def edit_info(root: Path, **changes: object) -> None:
    path = root / "meta" / "info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_table(path: Path, change) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def replace_column(key: str, values: pa.Array):
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(table.column_names.index(key), key, values)

    return change


def test_an_undamaged_dataset_is_read(damaged_root):
    batch = read_all(damaged_root)
    assert batch["index"].tolist() == list(range(len(batch["index"])))


@pytest.mark.parametrize(
    "file",
    [
        DATA,
        VIDEO,
        "meta/info.json",
        "meta/episodes/chunk-000/file-000.parquet",
    ],
)
def test_a_missing_file_is_named(damaged_root, file):
    (damaged_root / file).unlink()
    told = rf"{file} is missing|{file} cannot be read|meta/episodes contains no episodes"
    with pytest.raises(DatasetError, match=told):
        read_all(damaged_root)


@pytest.mark.parametrize(
    "file",
    [
        DATA,
        VIDEO,
        "meta/info.json",
        "meta/stats.json",
        "meta/tasks.parquet",
        "meta/episodes/chunk-000/file-000.parquet",
    ],
)
def test_a_file_cut_short_is_named(damaged_root, file):
    cut(damaged_root / file)
    with pytest.raises(DatasetError, match=re.escape(str(damaged_root / file))):
        read_all(damaged_root)


def test_a_video_overwritten_with_noise_is_named_with_the_frame(damaged_root):
    path = damaged_root / VIDEO
    content = bytearray(path.read_bytes())
    start = content.index(b"mdat") + 4
    length = int.from_bytes(content[start - 8 : start - 4], "big") - 8
    content[start : start + length] = np.random.default_rng(0).bytes(length)
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=re.escape(str(path)) + ".*frame [01]"):
        read_all(damaged_root)


def test_a_video_shorter_than_the_table_is_named_with_the_frame(damaged_root):
    shorter = (damaged_root / VIDEO).read_bytes()
    longer = damaged_root / VIDEO.replace("001", "000")
    longer.write_bytes(shorter)
    with pytest.raises(DatasetError, match=re.escape(str(longer)) + " has no frame 2"):
        read_all(damaged_root)


def test_a_flipped_bit_in_a_table_is_noticed(damaged_root):
    path = damaged_root / DATA
    content, group = path.read_bytes(), pq.read_metadata(path).row_group(0)
    for index in range(group.num_columns):
        column = group.column(index)
        start = column.dictionary_page_offset or column.data_page_offset
        last = start + column.total_compressed_size - 1
        path.write_bytes(content[:last] + bytes([content[last] ^ 1]) + content[last + 1 :])
        with pytest.raises(DatasetError, match=re.escape(str(path))):
            read_all(damaged_root)


def test_a_missing_column_is_named(damaged_root):
    for key in ("action", "observation.image"):
        edit_table(damaged_root / DATA, lambda table, key=key: table.drop_columns([key]))
        with pytest.raises(DatasetError, match=rf"{DATA} has no column .*{key}"):
            read_all(damaged_root)


@pytest.mark.parametrize(
    ("key", "values", "message"),
    [
        ("next.reward", pa.array([0.5, None], pa.float32()), "null values"),
        ("next.reward", pa.array(["a", "b"]), "does not match float32"),
        ("action", pa.array([[0.0, 1.0], [1.0]]), "does not match float64"),
        ("index", pa.array([3, 5]), "must count from 3 to 4"),
        (
            "task_index",
            pa.array([0, 9]),
            "frames 3 to 4 refer to task 9, but the dataset has 2 tasks",
        ),
        ("observation.image", pa.array([b"\x89PNGx", b"?"]), "cannot decode an image"),
        ("observation.image", pa.array([None, None], pa.binary()), "has no image"),
    ],
)
def test_values_unlike_the_metadata_are_named(damaged_root, key, values, message):
    edit_table(damaged_root / DATA, replace_column(key, values))
    with pytest.raises(DatasetError, match=message):
        read_all(damaged_root)


def test_rows_missing_from_a_file_are_counted(damaged_root):
    edit_table(damaged_root / DATA, lambda table: table.slice(1))
    with pytest.raises(DatasetError, match=f"{DATA} has 1 frames, but the metadata declares 2"):
        read_all(damaged_root)


def test_pictures_of_another_size_than_declared_are_refused(damaged_root):
    features = json.loads((damaged_root / "meta" / "info.json").read_text())["features"]
    for key, file in (("observation.images.top", "mp4"), ("observation.image", "parquet")):
        changed = features | {key: features[key] | {"shape": [8, 8, 3]}}
        edit_info(damaged_root, features=changed)
        with pytest.raises(DatasetError, match=rf"{file}.* declares 3x8x8"):
            read_all(damaged_root)


@pytest.mark.parametrize("path", ["../{chunk_index}.parquet", "/data/{chunk_index}.parquet"])
def test_a_path_out_of_the_folder_is_refused(damaged_root, path):
    for key, file in (("data_path", path), ("video_path", path)):
        edit_info(damaged_root, **{key: file})
        with pytest.raises(DatasetError, match="leads out of the dataset folder"):
            open_dataset(root=damaged_root)


def test_reserved_features_and_columns_may_be_missing(damaged_root):
    before = read_all(damaged_root)
    features = json.loads((damaged_root / "meta" / "info.json").read_text())["features"]
    del features["task_index"], features["timestamp"]
    edit_info(damaged_root, features=features)
    absent = ["index", "timestamp", "frame_index", "episode_index"]
    edit_table(damaged_root / DATA, lambda table: table.drop_columns(absent))
    after = read_all(damaged_root)
    for key in (*absent, "task_index"):
        assert np.array_equal(after[key], before[key])
    assert after["task"] == before["task"]
