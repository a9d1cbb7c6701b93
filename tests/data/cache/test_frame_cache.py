"""The cameras of datasets with their kept frames."""

import os

import numpy as np
import pytest

from manyhands.config.train import CacheConfig
from manyhands.data.cache.contents import cached_stores
from manyhands.data.cache.frame_cache import CacheOptions, cache_options, plan_frame_caches
from manyhands.data.cache.locations import ram_folder
from manyhands.data.dataset import open_dataset
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.read_options import ReadOptions
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

VIDEO, STORED = "observation.images.top", "observation.image"


def source_of(root, episodes=None) -> Source:
    meta = read_dataset_meta(root)
    return Source(root, meta, select_episodes(meta.episodes, episodes))


def opened(root, wish: CacheOptions, episodes=None, **choices):
    """A dataset with a cache as it is wished for, and its plan."""
    reading = ReadOptions(**choices)
    planned = plan_frame_caches([(source_of(root, episodes), reading)], wish)
    own = ReadOptions(**choices, cache=planned.caches[0])
    return open_dataset(root=root, episodes=episodes, reading=own), planned


def assert_same(one, other) -> None:
    batches = [dataset.batch(range(len(dataset))) for dataset in (one, other)]
    for key in (VIDEO, STORED):
        assert np.array_equal(batches[0][key], batches[1][key]), key


@pytest.mark.parametrize("mode", ["disk", "ram"])
def test_kept_frames_are_those_that_are_decoded(plain_root, tmp_path, mode):
    if mode == "ram" and ram_folder() is None:
        pytest.skip("this machine has no folder in memory")
    dataset, planned = opened(plain_root, CacheOptions(home=tmp_path, mode=mode))
    for _ in range(2):
        assert_same(dataset, open_dataset(root=plain_root))
    assert all(len(camera.missing(np.arange(14))) == 0 for camera in planned.caches[0].cameras)


def test_a_second_run_finds_what_the_first_has_kept(plain_root, tmp_path):
    wish = CacheOptions(home=tmp_path, mode="disk")
    first, _ = opened(plain_root, wish, episodes=[0, 2])
    first.batch(range(len(first)))
    _, planned = opened(plain_root, wish)
    for camera in planned.caches[0].cameras:
        camera_missing = camera.missing(np.arange(14)).tolist()
        assert camera_missing in ([], [5, 6, 7])
    stores = cached_stores(tmp_path)
    assert {store.description["camera"] for store in stores} == {VIDEO, STORED}


def test_facts_say_where_frames_are_and_how_many(plain_root, tmp_path):
    wish = CacheOptions(home=tmp_path, mode="disk")
    first, planned = opened(plain_root, wish)
    assert planned.facts == {"where": "disk", "capacity": 1.0, "filled": 0.0}
    first.batch(range(7))
    assert 0.5 <= planned.facts["filled"] < 1
    first.batch(range(len(first)))
    assert planned.facts == {"where": "disk", "capacity": 1.0, "filled": 1.0}
    _, planned = opened(plain_root, CacheOptions(home=tmp_path, mode="off"))
    assert planned.facts == {"where": "off", "capacity": 0.0, "filled": 0.0}


def test_a_copy_elsewhere_shares_them_and_another_size_does_not(plain_root, tmp_path):
    import shutil

    wish = CacheOptions(home=tmp_path / "home", mode="disk")
    first, _ = opened(plain_root, wish)
    first.batch(range(len(first)))
    copy = shutil.copytree(plain_root, tmp_path / "copy")
    _, planned = opened(copy, wish)
    assert all(len(camera.missing(np.arange(14))) == 0 for camera in planned.caches[0].cameras)
    _, resized = opened(copy, wish, image_size=(8, 12))
    assert all(len(camera.missing(np.arange(14))) == 14 for camera in resized.caches[0].cameras)


def test_a_changed_video_never_yields_frames_it_held_before(damaged_root, tmp_path):
    wish = CacheOptions(home=tmp_path / "home", mode="disk")
    dataset, _ = opened(damaged_root, wish)
    dataset.batch(range(5))
    videos = sorted((damaged_root / "videos" / VIDEO).rglob("*.mp4"))
    status = videos[0].stat()
    videos[0].write_bytes(videos[0].read_bytes().replace(b"Lavf", b"Lavg"))
    os.utime(videos[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    _, planned = opened(damaged_root, wish)
    missing = {len(camera.missing(np.arange(5))) for camera in planned.caches[0].cameras}
    assert 5 in missing


def test_jpeg_pixels_do_not_depend_on_what_is_kept(plain_root, tmp_path):
    cold, _ = opened(plain_root, CacheOptions(home=tmp_path, mode="disk", encoding="jpeg"))
    first = cold.batch(range(14))
    again = cold.batch(range(14))
    for key in (VIDEO, STORED):
        assert np.array_equal(first[key], again[key])
        exact = open_dataset(root=plain_root).batch(range(14))[key].numpy().astype(int)
        assert np.abs(first[key].numpy() - exact).mean() < 4


def test_nothing_is_kept_where_nothing_fits_and_the_reason_is_told(plain_root, tmp_path):
    wish = CacheOptions(home=tmp_path, mode="auto", max_disk=0, max_ram=0)
    dataset, planned = opened(plain_root, wish)
    assert planned.caches == [None]
    assert "frames are decoded every time" in planned.reason
    assert_same(dataset, open_dataset(root=plain_root))


def test_beyond_the_budget_frames_come_from_video(plain_root, tmp_path):
    whole = 14 * 3 * (32 * 48 + 16 * 24)
    dataset, planned = opened(
        plain_root, CacheOptions(home=tmp_path, mode="disk", max_disk=whole // 2)
    )
    for _ in range(2):
        assert_same(dataset, open_dataset(root=plain_root))
    kept = [14 - len(camera.missing(np.arange(14))) for camera in planned.caches[0].cameras]
    assert kept == [7, 7]
    assert "50 %" in planned.reason


def test_room_that_is_short_is_used_for_the_episodes_that_are_read(plain_root, tmp_path):
    need = 9 * 3 * (32 * 48 + 16 * 24)
    wish = CacheOptions(home=tmp_path, mode="disk", max_disk=need * 2 // 3 + 8192)
    dataset, planned = opened(plain_root, wish, episodes=[1, 2])
    dataset.batch(range(9))
    kept = [14 - len(camera.missing(np.arange(14))) for camera in planned.caches[0].cameras]
    assert all(6 <= each <= 8 for each in kept)


def test_without_a_place_for_stores_frames_come_from_video(plain_root, tmp_path):
    (tmp_path / "frames").write_text("in the way")
    dataset, planned = opened(plain_root, CacheOptions(home=tmp_path, mode="disk"))
    assert_same(dataset, open_dataset(root=plain_root))
    assert len(planned.caches[0].faults) == 2


def test_what_is_kept_is_brought_into_memory_if_it_fits(plain_root, tmp_path, monkeypatch):
    dataset, planned = opened(plain_root, CacheOptions(home=tmp_path, mode="disk"))
    dataset.batch(range(14))
    planned.make_durable()
    advised = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *request: advised.append(request[1:3]))
    planned.read_ahead(max_bytes=0)
    assert advised == []
    planned.read_ahead(max_bytes=2**30)
    assert len(advised) == 2


def test_frames_of_a_finished_run_outlive_the_machines_next_start(
    plain_root, tmp_path, monkeypatch
):
    wish = CacheOptions(home=tmp_path, mode="disk")
    dataset, planned = opened(plain_root, wish)
    dataset.batch(range(14))
    planned.make_durable()
    monkeypatch.setattr("manyhands.data.cache.store_files.boot_id", lambda: "another")
    _, again = opened(plain_root, wish)
    assert all(len(camera.missing(np.arange(14))) == 0 for camera in again.caches[0].cameras)


def test_a_config_says_what_is_wished_for(tmp_path, home):
    config = CacheConfig(mode="ram", folder=tmp_path, max_disk="2GiB", encoding="jpeg")
    assert cache_options(config, 5) == CacheOptions(
        home=tmp_path, mode="ram", encoding="jpeg", max_disk=2 * 2**30, max_ram=5
    )
    assert cache_options(CacheConfig(), None).home == home
