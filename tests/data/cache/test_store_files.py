"""The folder of a store: sound, or made anew."""

import json
import os

import numpy as np
import pytest
from workbench import EVERYTHING, NumberedPictures, num_wrong, open_camera, read, spec_of, store_of

from manyhands.data.cache import store_files as store_folder
from manyhands.data.cache.store import FrameStore


def change(path, **facts):
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))


DAMAGES = {
    "no json": lambda folder: (folder / "store.json").unlink(),
    "half a json": lambda folder: os.truncate(folder / "store.json", 20),
    "a list": lambda folder: (folder / "store.json").write_text("[1]"),
    "another format": lambda folder: change(folder / "store.json", format=99),
    "another shape": lambda folder: change(folder / "store.json", shape=[3, 4, 4]),
    "another type": lambda folder: change(folder / "store.json", dtype="<f4"),
    "another length": lambda folder: change(folder / "store.json", num_frames=49),
    "a larger capacity": lambda folder: change(folder / "store.json", capacity=51),
    "no number": lambda folder: change(folder / "store.json", capacity="many"),
    "short frames": lambda folder: os.truncate(folder / "frames.bin", 49 * 192),
    "short states": lambda folder: os.truncate(folder / "state.bin", 49),
    "no states": lambda folder: (folder / "state.bin").unlink(),
    "no frames": lambda folder: (folder / "frames.bin").unlink(),
    "no users": lambda folder: (folder / "users").unlink(),
    "nothing": lambda folder: [path.unlink() for path in folder.iterdir()],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store_is_made_anew(tmp_path, damage):
    source = NumberedPictures()
    camera = open_camera(tmp_path, source)
    read(camera, np.arange(50))
    store_of(camera).close()
    DAMAGES[damage](store_of(camera).folder)
    camera = open_camera(tmp_path, source)
    assert num_wrong(store_of(camera), source) == (0, 0)
    assert np.array_equal(read(camera, np.arange(50)), source.expected(np.arange(50)))
    assert num_wrong(store_of(camera), source) == (50, 0)
    assert [path.name for path in (tmp_path / "frames").iterdir() if path.is_dir()] == ["k"]


@pytest.mark.parametrize("name", ["index.bin", "frames.bin"])
def test_a_damaged_store_of_jpegs_is_made_anew(tmp_path, name):
    source = NumberedPictures()
    camera = open_camera(tmp_path, source, encoding="jpeg")
    expected = read(camera, np.arange(50))
    store_of(camera).close()
    (store_of(camera).folder / name).unlink()
    assert np.array_equal(read(camera, np.arange(50)), expected)


def test_a_sound_store_is_used_as_it_is(tmp_path):
    source = NumberedPictures()
    camera = open_camera(tmp_path, source)
    read(camera, np.arange(50))
    store_of(camera).close()
    folder = store_of(camera).folder
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    assert num_wrong(store_of(open_camera(tmp_path, source)), source) == (50, 0)
    assert {path.name: path.stat().st_ino for path in folder.iterdir()} == before


def test_a_new_description_replaces_the_old_and_leaves_the_frames(tmp_path):
    source = NumberedPictures()
    read(open_camera(tmp_path, source), np.arange(5))
    moved = open_camera(tmp_path, source, description={"dataset": "moved"})
    manifest = store_folder.read_manifest(store_of(moved).folder)
    assert manifest["description"] == {"dataset": "moved"}
    assert num_wrong(store_of(moved), source) == (5, 0)


def test_a_store_that_is_being_used_survives_its_replacement(tmp_path):
    source = NumberedPictures()
    camera = open_camera(tmp_path, source)
    read(camera, np.arange(50))
    (store_of(camera).folder / "store.json").unlink()
    other = open_camera(tmp_path, source)
    assert num_wrong(store_of(other), source) == (0, 0)
    assert num_wrong(store_of(camera), source) == (50, 0)


def test_a_boot_of_the_machine_has_one_name(monkeypatch, tmp_path):
    assert store_folder.boot_id() == store_folder.boot_id() != ""
    monkeypatch.setattr(store_folder, "_BOOT_ID", tmp_path / "there is none")
    assert store_folder.boot_id() == store_folder.boot_id() != ""


def test_a_file_takes_no_more_room_than_its_frames(tmp_path):
    source = NumberedPictures((3, 128, 128))
    camera = open_camera(tmp_path, source, 4000)
    read(camera, np.array([0, 3999]))
    status = (store_of(camera).folder / "frames.bin").stat()
    assert status.st_size == 4000 * 3 * 128 * 128
    assert status.st_blocks * 512 < 400_000


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "home").write_text("in the way")
    with pytest.raises(OSError, match="home"):
        FrameStore(tmp_path / "home", spec_of(NumberedPictures()), EVERYTHING)
