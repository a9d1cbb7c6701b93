"""Replay buffers of both versions of zarr, in folders and zip files."""

import json

import numpy as np
import pytest
import zarr

from manyhands.data.importing.zarr_buffer import ZarrBuffer, is_zarr
from manyhands.errors import DatasetError


@pytest.mark.parametrize("name", ["zarr", "zarr, zipped"])
def test_episodes_end_where_the_buffer_says(written, episodes, name):
    path = written(name)
    assert is_zarr(path)
    source = ZarrBuffer(path)
    assert list(source.columns) == ["data/action", "data/img", "data/state"]
    for number, episode in enumerate(episodes):
        actions = [frame["data/action"] for frame in source.frames(number, ["data/action"])]
        np.testing.assert_array_equal(actions, episode["action"])


def test_version_3_of_zarr_is_read(tmp_path):
    root = zarr.open_group(tmp_path / "a", mode="w", zarr_format=3)
    for name, values in (("data/action", np.ones((4, 2))), ("meta/episode_ends", np.array([4]))):
        root.create_array(name, shape=values.shape, dtype=values.dtype)[:] = values
    assert is_zarr(tmp_path / "a")
    assert len([*ZarrBuffer(tmp_path / "a").frames(0, ["data/action"])]) == 4


@pytest.mark.parametrize(
    ("ends", "message"),
    [([4, 4], "count upwards"), ([], "count upwards"), ([9], "data/action has 4 rows, but")],
)
def test_impossible_ends_are_named(tmp_path, ends, message):
    root = zarr.open_group(tmp_path / "a", mode="w", zarr_format=2)
    root.create_array("data/action", shape=(4, 2), dtype="f4")[:] = 1
    array = root.create_array("meta/episode_ends", shape=(len(ends),), dtype="i8", chunks=(1,))
    if ends:
        array[:] = ends
    with pytest.raises(DatasetError, match=message):
        ZarrBuffer(tmp_path / "a")


def test_what_is_no_replay_buffer_is_named(tmp_path):
    zarr.open_group(tmp_path / "a", mode="w", zarr_format=2)
    with pytest.raises(DatasetError, match="a has no meta/episode_ends and data"):
        ZarrBuffer(tmp_path / "a")
    (tmp_path / "b.zip").write_bytes(b"nothing")
    with pytest.raises(DatasetError, match=r"b.zip cannot be read as zarr: BadZipFile"):
        ZarrBuffer(tmp_path / "b.zip")


def test_a_damaged_chunk_is_named(write, episodes):
    path = write("zarr", episodes)
    (path / "data/action/0.0").write_bytes(b"\2\1\1\1" + bytes(40))
    with pytest.raises(DatasetError, match=r"replay.zarr cannot be read as zarr"):
        ZarrBuffer(path)


def test_missing_chunks_are_noted(write, episodes):
    path = write("zarr", episodes)
    assert ZarrBuffer(path).notes == []
    (path / "data/action/1.0").unlink()
    (note,) = ZarrBuffer(path).notes
    assert note == "data/action: 1 of 3 chunks are missing and read as 0.0"


def test_the_package_of_image_codecs_is_named(write, episodes):
    path = write("zarr", episodes)
    file = path / "data/img/.zarray"
    document = json.loads(file.read_text()) | {"compressor": {"id": "imagecodecs_jpegxl"}}
    file.write_text(json.dumps(document))
    with pytest.raises(DatasetError, match="Install: pip install imagecodecs"):
        ZarrBuffer(path)
