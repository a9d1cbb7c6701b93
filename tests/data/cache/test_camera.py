"""A camera that decodes every picture once."""

import errno
import os
import pickle
import resource
import shutil

import numpy as np
import pytest
from workbench import (
    NumberedPictures,
    num_wrong,
    open_camera,
    read,
    run_in_processes,
    store_of,
)

from manyhands.data.cache.contents import clear

FRAMES = np.array([[4, 5, 6], [5, 4, 30], [30, 30, 0]])


def test_a_frame_is_decoded_once(tmp_path):
    source = NumberedPictures()
    camera = open_camera(tmp_path, source)
    for _ in range(3):
        assert np.array_equal(read(camera, FRAMES), source.expected(FRAMES))
    assert source.num_decoded == 5
    again = open_camera(tmp_path, NumberedPictures())
    assert np.array_equal(read(again, FRAMES), source.expected(FRAMES))
    assert again._source.num_decoded == 0


def test_what_is_missing_is_told_rising_and_once(tmp_path):
    camera = open_camera(tmp_path, NumberedPictures())
    assert camera.missing(FRAMES).tolist() == [0, 4, 5, 6, 30]
    read(camera, FRAMES[0])
    assert camera.missing(FRAMES).tolist() == [0, 30]


def test_frames_can_be_kept_ahead_as_far_as_there_is_room(tmp_path):
    source = NumberedPictures()
    camera = open_camera(tmp_path, source, max_bytes=10 * 192)
    wanted = camera.cacheable(camera.missing(np.arange(4, 30)))
    assert wanted.tolist() == [4, 5, 6, 7, 8, 9]
    assert np.array_equal(np.stack([*camera.pictures(wanted)]), source.expected(wanted))
    assert num_wrong(store_of(camera), source) == (6, 0)
    assert len(camera.cacheable(camera.missing(np.arange(4, 30)))) == 0


def test_single_frames_and_none_at_all_are_read(tmp_path):
    source = NumberedPictures()
    camera = open_camera(tmp_path, source)
    assert np.array_equal(read(camera, np.array(3)), source.expected(np.array(3)))
    assert read(camera, np.zeros((0, 2), dtype=np.int64)).shape == (0, 2, 3, 8, 8)


@pytest.mark.parametrize("frame", [-1, 50])
def test_frames_that_do_not_exist_are_refused(tmp_path, frame):
    with pytest.raises(IndexError, match="0 and 49"):
        read(open_camera(tmp_path, NumberedPictures()), np.array([3, frame]))


@pytest.mark.parametrize("max_bytes", [0, 3 * 192, 1 << 40])
@pytest.mark.parametrize("encoding", ["raw", "jpeg"])
def test_pixels_do_not_depend_on_what_is_kept(tmp_path, max_bytes, encoding):
    source = NumberedPictures()
    without = read(open_camera(tmp_path / "empty", source, max_bytes=0, encoding=encoding), FRAMES)
    camera = open_camera(tmp_path, source, max_bytes=max_bytes, encoding=encoding)
    for _ in range(2):
        assert np.array_equal(read(camera, FRAMES), without)
    assert np.array_equal(read(pickle.loads(pickle.dumps(camera)), FRAMES), without)
    error = np.abs(without.astype(int) - source.expected(FRAMES)).mean()
    assert error == 0 if encoding == "raw" else 0 < error < 30


def test_a_picture_that_is_not_contiguous_is_kept_right(tmp_path):
    class Turned(NumberedPictures):
        def pictures(self, frames):
            for picture in super().pictures(frames):
                turned = np.ascontiguousarray(picture.transpose(1, 2, 0))
                yield turned.transpose(2, 0, 1)

    source = Turned()
    for _ in range(2):
        camera = open_camera(tmp_path, source)
        assert np.array_equal(read(camera, FRAMES), source.expected(FRAMES))


def full_after(num_bytes):
    """A disk that takes so many bytes and then is full, in the middle of a write too."""
    real, left = os.pwrite, [num_bytes]

    def pwrite(descriptor, content, offset):
        if left[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        num_written = real(descriptor, memoryview(content)[: left[0]], offset)
        left[0] -= num_written
        return num_written

    return pwrite


@pytest.mark.parametrize("encoding", ["raw", "jpeg"])
@pytest.mark.parametrize("num_bytes", [0, 100, 1000, 3000])
def test_a_full_disk_loses_no_frame(tmp_path, monkeypatch, encoding, num_bytes):
    source = NumberedPictures()
    expected = read(open_camera(tmp_path / "a", source, encoding=encoding), np.arange(50))
    camera = open_camera(tmp_path / "b", source, encoding=encoding)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full_after(num_bytes))
        for _ in range(2):
            assert np.array_equal(read(camera, np.arange(50)), expected)
        assert "No space left" in camera.fault
    num_present, wrong = num_wrong(store_of(camera), source)
    assert num_present < 50 and wrong == 0
    assert source.num_decoded == 50 + 50 + (50 - num_present)
    # Room that comes back is left to others.
    read(camera, np.arange(50))
    assert num_wrong(store_of(camera), source) == (num_present, 0)


def test_a_limit_on_the_size_of_files_loses_no_frame(tmp_path):
    source = NumberedPictures()
    camera = open_camera(tmp_path, source)
    ((fault, is_right),) = run_in_processes("fork", read_with_limit, [(camera, 20 * 192 + 7)])
    assert "File too large" in fault and is_right
    assert num_wrong(store_of(camera), source) == (20, 0)


def read_with_limit(camera, num_bytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))
    frames = np.arange(50)
    right = [np.array_equal(read(camera, frames), camera._source.expected(frames)) for _ in "ab"]
    return camera.fault, all(right)


def test_a_store_that_cannot_be_opened_is_done_without(tmp_path):
    source = NumberedPictures()
    camera = pickle.loads(pickle.dumps(open_camera(tmp_path / "home", source)))
    shutil.rmtree(tmp_path / "home")
    (tmp_path / "home").write_text("in the way")
    assert camera.missing(FRAMES).tolist() == [0, 4, 5, 6, 30]
    assert np.array_equal(read(camera, FRAMES), source.expected(FRAMES))
    assert camera.fault is not None


@pytest.mark.parametrize("encoding", ["raw", "jpeg"])
def test_clearing_what_a_run_uses_does_not_disturb_it(tmp_path, encoding):
    source = NumberedPictures()
    expected = read(open_camera(tmp_path / "a", source, encoding=encoding), np.arange(50))
    camera = open_camera(tmp_path / "b", source, encoding=encoding)
    read(camera, np.arange(20))
    assert clear(tmp_path / "b") > 0
    assert not store_of(camera).folder.exists()
    assert np.array_equal(read(camera, np.arange(50)), expected)
    # A worker that starts now makes the store anew.
    worker = pickle.loads(pickle.dumps(camera))
    assert np.array_equal(read(worker, np.arange(50)), expected)
    assert np.array_equal(read(camera, np.arange(50)), expected)
    assert store_of(camera).folder.is_dir()


def test_a_source_that_gives_too_few_pictures_is_no_silent_loss(tmp_path):
    class Short(NumberedPictures):
        def pictures(self, frames):
            yield from super().pictures(frames[:-1])

    with pytest.raises(ValueError, match="shorter"):
        read(open_camera(tmp_path, Short()), np.arange(5))
