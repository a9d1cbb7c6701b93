"""Frames decoded ahead."""

import multiprocessing
import os
import random
import signal
import time

import numpy as np
import pytest

from manyhands.data.cache.contents import clear
from manyhands.data.cache.fill import build_cache, fill
from manyhands.data.cache.frame_cache import CacheOptions, cameras_of, plan_frame_caches
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.read_options import ReadOptions
from manyhands.data.writing.writer import DatasetWriter
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

KEY = "observation.images.top"
NUM_KILLS = 30
DEADLINE_S = 60


@pytest.fixture(scope="module")
def source(tmp_path_factory, picture) -> Source:
    """Two episodes of 60 frames, filmed."""
    root = tmp_path_factory.mktemp("filmed") / "dataset"
    axes = ["height", "width", "channels"]
    features = {KEY: {"dtype": "video", "shape": [48, 64, 3], "names": axes}}
    with DatasetWriter.create(root, 10, features) as writer:
        for episode in range(2):
            for step in range(60):
                writer.add_frame({KEY: picture(48, 64, 60 * episode + step), "task": "look"})
            writer.save_episode()
    meta = read_dataset_meta(root)
    return Source(root, meta, select_episodes(meta.episodes, None))


@pytest.fixture(scope="module")
def truth(source) -> np.ndarray:
    """Every frame as it is decoded."""
    return np.stack(list(cameras_of(source, ReadOptions())[KEY].pictures(np.arange(120))))


def opened(source: Source, home):
    planned = plan_frame_caches([(source, ReadOptions())], CacheOptions(home=home, mode="disk"))
    (cache,) = planned.caches
    assert cache is not None
    camera = cache.column(KEY, cameras_of(source, ReadOptions())[KEY], drops_single_axis=True)
    return planned, camera


def kept_frames(source: Source, home) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and pixels of all frames that a new reader finds."""
    _, camera = opened(source, home)
    numbers = np.setdiff1d(np.arange(120), camera.missing(np.arange(120)))
    pixels = np.empty((len(numbers), *camera.shape), np.uint8)
    camera.read_into(numbers, pixels)
    return numbers, pixels


@pytest.mark.parametrize("num_workers", [1, 2])
def test_all_frames_are_kept_and_a_second_time_none_is_decoded(
    source, truth, tmp_path, monkeypatch, num_workers
):
    monkeypatch.setattr("manyhands.data.cache.fill.MIN_FRAMES_PER_PROCESS", 10)
    told = []
    planned, _ = opened(source, tmp_path)
    first = fill(planned, num_workers, lambda *now: told.append(now))
    assert (first.num_frames, first.num_decoded, first.faults) == (120, 120, [])
    assert told[-1] == (120, 120)
    again = fill(opened(source, tmp_path)[0], num_workers)
    assert (again.num_frames, again.num_decoded) == (120, 0)
    numbers, pixels = kept_frames(source, tmp_path)
    assert len(numbers) == 120 and np.array_equal(pixels, truth)


def test_a_build_goes_on_where_it_was_stopped(source, tmp_path):
    _, camera = opened(source, tmp_path)
    camera.read_into(np.arange(10, 40), np.empty((30, *camera.shape), np.uint8))
    done, reason = build_cache(
        source, ReadOptions(), CacheOptions(home=tmp_path, mode="disk"), 1, _quiet
    )
    assert (done.num_frames, done.num_decoded) == (120, 90)
    assert "on disk, " in reason


def _quiet(done: int, total: int) -> None:
    pass


def build(source: Source, home) -> None:
    os.setsid()
    build_cache(source, ReadOptions(), CacheOptions(home=home, mode="disk"), 1, _quiet)


def test_a_builder_killed_at_any_moment_leaves_no_wrong_frame(source, truth, tmp_path):
    moments, context = random.Random(0), multiprocessing.get_context("fork")
    started = time.monotonic()
    whole = context.Process(target=build, args=(source, tmp_path / "whole"))
    whole.start()
    whole.join(DEADLINE_S)
    wall_s = time.monotonic() - started
    num_kills = num_partial = 0
    deadline = started + DEADLINE_S
    # On a busy machine many kills come too early: there are more until one has met frames.
    while num_kills < NUM_KILLS or (num_partial == 0 and time.monotonic() < deadline):
        num_kills += 1
        builder = context.Process(target=build, args=(source, tmp_path))
        builder.start()
        time.sleep(moments.uniform(0, wall_s))
        os.kill(builder.pid, signal.SIGKILL)
        builder.join(DEADLINE_S)
        numbers, pixels = kept_frames(source, tmp_path)
        assert np.array_equal(pixels, truth[numbers])
        num_partial += 0 < len(numbers) < 120
        if len(numbers) == 120:
            clear(tmp_path)
    assert num_partial > 0, "no kill came while frames were being kept"


def test_a_clip_that_cannot_be_decoded_is_named_and_the_others_are_kept(source, tmp_path):
    import shutil

    root = shutil.copytree(source.root, tmp_path / "copy")
    (video,) = (root / "videos").rglob("*.mp4")
    content = bytearray(video.read_bytes())
    start = content.index(b"mdat") + 4
    middle = start + (len(content) - start) // 2
    content[middle : middle + 4000] = bytes(4000)
    video.write_bytes(content)
    meta = read_dataset_meta(root)
    broken = Source(root, meta, select_episodes(meta.episodes, None))
    wish = CacheOptions(home=tmp_path / "home", mode="disk")
    done, _ = build_cache(broken, ReadOptions(), wish, 1, _quiet)
    assert 0 < done.num_decoded < 120
    assert any(video.name in fault for fault in done.faults)
