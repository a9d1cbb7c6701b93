"""A camera's frames on one machine: shared, and never wrong."""

import contextlib
import errno
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from workbench import (
    EVERYTHING,
    NumberedPictures,
    num_wrong,
    open_camera,
    read,
    read_all_shuffled,
    run_in_processes,
    spec_of,
    store_of,
)

from manyhands.data.cache import store_files as store_folder
from manyhands.data.cache.store import FrameStore


def fill(store: FrameStore, source: NumberedPictures, frames: np.ndarray) -> None:
    for frame, picture in zip(frames.tolist(), source.pictures(frames), strict=True):
        store.write(frame, store.encode(picture))


@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_frames_are_read_back_as_they_were_written(tmp_path, dtype):
    source = NumberedPictures((1, 6, 5), np.dtype(dtype))
    store = FrameStore(tmp_path, spec_of(source, 40), EVERYTHING)
    fill(store, source, np.arange(3, 20))
    frames = np.array([5, 30, 19, 5, 2, 3])
    out = np.full((6, 1, 6, 5), 9, dtype)
    there = store.gather(frames, out)
    assert there.tolist() == [True, False, True, True, False, True]
    assert np.array_equal(out[there], source.expected(frames[there]))
    assert (out[~there] == 9).all()


@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.parametrize("encoding", ["raw", "jpeg"])
def test_processes_read_what_others_wrote(tmp_path, method, encoding):
    source = NumberedPictures()
    store = FrameStore(tmp_path, spec_of(source, encoding=encoding), EVERYTHING)
    fill(store, source, np.arange(50))
    assert run_in_processes(method, num_wrong, [(store, source)] * 2) == [(50, 0)] * 2


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_four_processes_fill_one_store_at_once(tmp_path, method):
    camera = open_camera(tmp_path, NumberedPictures((3, 32, 32)), 200)
    jobs = [(camera, 200, seed) for seed in range(4)]
    num_decoded = run_in_processes(method, read_all_shuffled, jobs)
    assert sum(num_decoded) >= 200
    assert num_wrong(store_of(camera), NumberedPictures((3, 32, 32))) == (200, 0)


def test_processes_that_open_a_new_store_at_once_get_the_same(tmp_path):
    jobs = [(tmp_path, seed) for seed in range(8)]
    assert run_in_processes("fork", open_and_write, jobs) == [None] * 8
    store = FrameStore(tmp_path, spec_of(NumberedPictures()), EVERYTHING)
    assert num_wrong(store, NumberedPictures()) == (8, 0)


def open_and_write(home, frame):
    source = NumberedPictures()
    fill(FrameStore(home, spec_of(source), EVERYTHING), source, np.array([frame]))


@pytest.mark.parametrize(
    ("encoding", "shape", "num_kills"), [("raw", (3, 224, 224), 8), ("jpeg", (3, 32, 32), 6)]
)
def test_killing_never_leaves_a_wrong_frame(tmp_path, encoding, shape, num_kills):
    source, dice = NumberedPictures(shape), random.Random(5)
    spec, num_present, most_present = spec_of(source, 200, encoding=encoding), 0, 0
    for kill in range(num_kills):
        goal = num_present + dice.randint(1, 12)
        kill_writers(tmp_path, spec, [kill, 1000 + kill], goal, dice.uniform(0, 0.002))
        with contextlib.closing(FrameStore(tmp_path, spec, EVERYTHING)) as store:
            num_present, wrong = num_wrong(store, source)
        assert wrong == 0 and num_present >= goal
        most_present = max(most_present, num_present)
        if num_present > 150:
            shutil.rmtree(tmp_path / "frames")
            num_present = 0
    assert most_present > 10


def kill_writers(home, spec, seeds, goal, delay_s):
    """Let processes write until so many frames are there, and a moment longer."""
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_on, args=(home, spec, seed)) for seed in seeds]
    for writer in writers:
        writer.start()
    with contextlib.closing(FrameStore(home, spec, EVERYTHING)) as store:
        while store.are_present(np.arange(spec.num_frames)).sum() < goal:
            assert all(writer.is_alive() for writer in writers)
            time.sleep(0.001)
    time.sleep(delay_s)
    for writer in writers:
        os.kill(writer.pid, signal.SIGKILL)
    for writer in writers:
        writer.join()


def write_on(home, spec, seed):
    source = NumberedPictures(spec.shape)
    camera = open_camera(home, source, spec.num_frames, encoding=spec.encoding)
    for frame in np.random.default_rng(seed).permutation(spec.num_frames):
        read(camera, np.array([frame]))
    signal.pause()


def test_a_kill_between_pixels_and_state_leaves_the_frame_absent(tmp_path):
    source = NumberedPictures()
    store = FrameStore(tmp_path, spec_of(source), EVERYTHING)
    store._files().bytes.write(7, store.encode(source.expected(np.array(7))))
    assert not store.are_present(np.arange(50)).any()


def start_again(monkeypatch, tmp_path, name="another boot"):
    """As if the machine had been started anew."""
    (tmp_path / "boot_id").write_text(name)
    monkeypatch.setattr(store_folder, "_BOOT_ID", tmp_path / "boot_id")


@pytest.mark.parametrize("encoding", ["raw", "jpeg"])
def test_after_a_crash_of_the_machine_only_durable_frames_count(tmp_path, monkeypatch, encoding):
    source = NumberedPictures()
    spec = spec_of(source, encoding=encoding)
    with contextlib.closing(FrameStore(tmp_path, spec, EVERYTHING)) as store:
        fill(store, source, np.array([1, 2, 3, 9]))
        store.make_durable()
        fill(store, source, np.array([4, 30]))
        # Pixels that never reached the disk: their state did.
        if encoding == "raw":
            store._files().bytes.write(30, bytes(spec.frame_bytes))
    start_again(monkeypatch, tmp_path)
    with contextlib.closing(FrameStore(tmp_path, spec, EVERYTHING)) as store:
        assert np.flatnonzero(store.are_present(np.arange(50))).tolist() == [1, 2, 3, 9]
        assert num_wrong(store, source) == (4, 0)
        fill(store, source, np.array([4, 30]))
    with contextlib.closing(FrameStore(tmp_path, spec, EVERYTHING)) as store:
        assert num_wrong(store, source) == (6, 0)


def test_pixels_are_on_the_disk_before_their_states_say_so(tmp_path, monkeypatch):
    source = NumberedPictures()
    store = FrameStore(tmp_path, spec_of(source), EVERYTHING)
    fill(store, source, np.arange(3))
    synced = []

    def fsync(descriptor):
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        synced.append((name, [*(store.folder / "state.bin").read_bytes()[:4]]))

    monkeypatch.setattr(os, "fsync", fsync)
    store.make_durable()
    assert synced == [("frames.bin", [1, 1, 1, 0]), ("state.bin", [2, 2, 2, 0])]


def test_frames_that_could_not_be_made_durable_do_not_count(tmp_path, monkeypatch):
    source = NumberedPictures()
    store = FrameStore(tmp_path, spec_of(source), EVERYTHING)
    fill(store, source, np.arange(5))
    store.make_durable()
    fill(store, source, np.arange(5, 9))

    def broken(descriptor):
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="broken"):
        store.make_durable()
    assert np.flatnonzero(store.are_present(np.arange(50))).tolist() == [0, 1, 2, 3, 4]


def test_only_the_first_frames_are_kept_when_room_is_short(tmp_path):
    source = NumberedPictures()
    store = FrameStore(tmp_path, spec_of(source), 20 * 192 + 100)
    fill(store, source, np.arange(50))
    assert np.flatnonzero(store.are_present(np.arange(50))).tolist() == [*range(20)]
    assert (store.folder / "frames.bin").stat().st_size == 20 * 192


def test_a_store_grows_with_the_room_it_is_given_and_keeps_its_frames(tmp_path):
    source = NumberedPictures()
    small = FrameStore(tmp_path, spec_of(source), 20 * 192)
    fill(small, source, np.arange(50))
    large = FrameStore(tmp_path, spec_of(source), 30 * 192)
    fill(large, source, np.arange(50))
    assert num_wrong(large, source) == (30, 0)
    # Whoever opened it when it was small goes on with what it can see.
    assert num_wrong(small, source) == (20, 0)
    assert num_wrong(FrameStore(tmp_path, spec_of(source), 0), source) == (30, 0)


def test_a_store_without_room_is_empty(tmp_path):
    source = NumberedPictures()
    store = FrameStore(tmp_path, spec_of(source), 0)
    fill(store, source, np.arange(5))
    assert num_wrong(store, source) == (0, 0)


def test_a_pickled_store_opens_its_files_anew(tmp_path):
    source = NumberedPictures()
    store = FrameStore(tmp_path, spec_of(source), EVERYTHING)
    fill(store, source, np.arange(5))
    content = pickle.dumps(store)
    assert len(content) < 1000
    store.close()
    assert num_wrong(pickle.loads(content), source) == (5, 0)


def test_a_closed_or_lost_store_leaves_no_file_open(tmp_path):
    def num_open_files():
        return sum(str(tmp_path) in path for path in map(target, Path("/proc/self/fd").iterdir()))

    def target(link):
        try:
            return str(link.readlink())
        except FileNotFoundError:
            return "the folder itself, open while it was listed"

    store = FrameStore(tmp_path, spec_of(NumberedPictures()), EVERYTHING)
    assert num_open_files() > 0
    store.close()
    assert num_open_files() == 0
    store.are_present(np.arange(5))
    assert num_open_files() > 0
    del store
    assert num_open_files() == 0


def test_a_temporary_store_goes_with_its_last_user(tmp_path):
    source = NumberedPictures()
    one, other = (
        FrameStore(tmp_path, spec_of(source), EVERYTHING, is_temporary=True) for _ in range(2)
    )
    one.close()
    fill(other, source, np.arange(3))
    assert other.folder.is_dir()
    other.close()
    assert not other.folder.exists()


def test_a_temporary_store_of_a_killed_run_is_removed_by_the_next(tmp_path):
    source = NumberedPictures()
    spec = spec_of(source)
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=hold, args=(tmp_path, spec, ready))
    process.start()
    assert ready.wait(20)
    first = FrameStore(tmp_path, spec_of(source, key="a"), EVERYTHING, is_temporary=True)
    assert {path.name for path in first.folder.parent.iterdir()} == {".lock", "k", "a"}
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    second = FrameStore(tmp_path, spec_of(source, key="b"), EVERYTHING, is_temporary=True)
    assert {path.name for path in second.folder.parent.iterdir()} == {".lock", "a", "b"}


def hold(home, spec, ready):
    store = FrameStore(home, spec, EVERYTHING, is_temporary=True)
    ready.set()
    signal.pause()
    store.close()


def test_a_forked_child_does_not_remove_the_temporary_store_of_its_parent(tmp_path):
    source = NumberedPictures()
    store = FrameStore(tmp_path, spec_of(source), EVERYTHING, is_temporary=True)
    fill(store, source, np.arange(50))
    assert run_in_processes("fork", read_and_close, [(store, source)]) == [(50, 0)]
    assert num_wrong(store, source) == (50, 0)
    assert store.folder.is_dir()


def read_and_close(store, source):
    found = num_wrong(store, source)
    store.close()
    return found
