"""What is kept under a home."""

import os
import time

import numpy as np
import pytest
from workbench import NumberedPictures, open_camera, read, store_of

from manyhands.data.cache import store_files as store_folder
from manyhands.data.cache.contents import cached_stores, clear, release_unused

SOURCE = NumberedPictures((3, 64, 64))


def keep(home, key, num_frames):
    camera = open_camera(home, SOURCE, key=key, description={"camera": key})
    read(camera, np.arange(num_frames))
    store_of(camera).close()
    return store_of(camera).folder


def test_an_empty_home_has_nothing(tmp_path):
    assert cached_stores(tmp_path / "none") == []
    assert clear(tmp_path / "none") == 0
    release_unused(tmp_path / "none")


def test_stores_are_told_with_the_latest_in_front(tmp_path):
    old = keep(tmp_path, "old", 10)
    os.utime(old / "users", (1000, 1000))
    keep(tmp_path, "new", 20)
    new, older = cached_stores(tmp_path)
    assert (new.key, older.key) == ("new", "old")
    assert (new.num_present, new.num_frames) == (20, 50)
    assert (older.num_present, older.num_frames) == (10, 50)
    assert new.description == {"camera": "new"} and new.encoding == "raw"
    assert older.last_used == 1000 and time.time() - new.last_used < 100
    assert 20 * 12288 <= new.disk_bytes <= 20 * 12288 + 50_000
    assert new.disk_bytes < 50 * 12288


def test_frames_that_a_crash_may_have_lost_are_not_counted(tmp_path, monkeypatch):
    camera = open_camera(tmp_path, SOURCE)
    read(camera, np.arange(10))
    store_of(camera).make_durable()
    read(camera, np.arange(30))
    assert cached_stores(tmp_path)[0].num_present == 30
    monkeypatch.setattr(store_folder, "_BOOT_ID", tmp_path / "boot")
    (tmp_path / "boot").write_text("another")
    assert cached_stores(tmp_path)[0].num_present == 10


def test_a_damaged_store_is_listed_and_cleared(tmp_path):
    folder = keep(tmp_path, "k", 50)
    (folder / "store.json").write_text("{")
    (folder / "users").unlink()
    (store,) = cached_stores(tmp_path)
    assert (store.num_present, store.description) == (0, {})
    assert clear(tmp_path) == store.disk_bytes > 500_000
    assert cached_stores(tmp_path) == []


def test_clearing_gives_the_room_back(tmp_path):
    keep(tmp_path, "a", 50)
    keep(tmp_path, "b", 50)
    sizes = {store.key: store.disk_bytes for store in cached_stores(tmp_path)}
    assert clear(tmp_path, only=[]) == 0
    assert clear(tmp_path, only=["b", "unknown"]) == sizes["b"]
    assert [store.key for store in cached_stores(tmp_path)] == ["a"]
    assert clear(tmp_path) == sizes["a"]
    assert [path.name for path in (tmp_path / "frames").iterdir()] == [".lock"]


def test_what_a_killed_process_left_is_cleared(tmp_path):
    folder = keep(tmp_path, "a", 50)
    folder.rename(folder.with_name(".a.partial"))
    assert cached_stores(tmp_path) == []
    assert clear(tmp_path) > 500_000
    assert [path.name for path in (tmp_path / "frames").iterdir()] == [".lock"]


def test_only_unused_stores_are_released(tmp_path):
    keep(tmp_path, "unused", 3)
    used = open_camera(tmp_path, SOURCE, key="used")
    release_unused(tmp_path)
    assert [store.key for store in cached_stores(tmp_path)] == ["used"]
    store_of(used).close()
    release_unused(tmp_path)
    assert cached_stores(tmp_path) == []


@pytest.mark.parametrize("name", ["frames", "frames-elsewhere"])
def test_the_stores_of_all_machines_are_told(tmp_path, name):
    keep(tmp_path, "k", 3).parent.rename(tmp_path / name)
    assert [store.key for store in cached_stores(tmp_path)] == ["k"]
    assert clear(tmp_path) > 0
