"""Plain pixels at their place."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from workbench import EVERYTHING, NumberedPictures, run_in_processes, spec_of

from manyhands.data.cache import raw_frames
from manyhands.data.cache.raw_frames import RawFrames

MIB = 1024**2


def make_frames(folder, num_frames, shape=(3, 8, 8)):
    source = NumberedPictures(shape)
    spec = spec_of(source, num_frames)
    with (folder / "frames.bin").open("wb") as file:
        file.truncate(num_frames * spec.frame_bytes)
    return source, RawFrames(folder, spec, EVERYTHING)


def test_a_frame_lies_at_its_place(tmp_path):
    source, frames = make_frames(tmp_path, 10)
    assert frames.write(3, source.expected(np.array(3)).tobytes())
    content = np.fromfile(tmp_path / "frames.bin", np.uint8).reshape(10, 3, 8, 8)
    assert np.array_equal(content[3], source.expected(np.array(3)))
    assert not content[[*range(3), *range(4, 10)]].any()


def test_frames_are_copied_straight_into_a_part_of_a_batch(tmp_path):
    source, frames = make_frames(tmp_path, 10)
    for frame in range(10):
        frames.write(frame, source.expected(np.array(frame)).tobytes())
    batch = np.zeros((4, 3, 8, 8), np.uint8)
    assert frames.read(np.array([9, 2]), batch[1:3]).all()
    assert np.array_equal(batch[1:3], source.expected(np.array([9, 2])))
    assert not batch[[0, 3]].any()


def test_a_write_that_the_disk_cuts_short_goes_on(tmp_path, monkeypatch):
    source, frames = make_frames(tmp_path, 3)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, content, at: real(file, content[:50], at))
    frames.write(1, source.expected(np.array(1)).data.cast("B"))
    out = np.empty((1, 3, 8, 8), np.uint8)
    frames.read(np.array([1]), out)
    assert np.array_equal(out[0], source.expected(np.array(1)))


def test_a_frame_of_another_size_cannot_spill_over(tmp_path):
    _, frames = make_frames(tmp_path, 3)
    with pytest.raises(AssertionError):
        frames.write(1, bytes(193))


def resident_bytes():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss:"))


def most_resident(folder, num_frames, shape):
    """How far this process grows while it reads three times as much as the file holds."""
    frames = RawFrames(folder, spec_of(NumberedPictures(shape), num_frames), EVERYTHING)
    out = np.ones((32, *shape), np.uint8)
    before, most = resident_bytes(), 0
    random = np.random.default_rng(0)
    for number in range(3 * num_frames // 32):
        frames.read(random.integers(0, num_frames, 32), out)
        if number % 9 == 0:
            most = max(most, resident_bytes() - before)
    return most


def test_memory_stays_flat_however_large_the_file(tmp_path, monkeypatch):
    shape, num_frames = (3, 96, 96), 3000
    # Small writes, as a store gets them: the system maps pages together as they were written.
    with (tmp_path / "frames.bin").open("wb", buffering=0) as file:
        for frame in range(num_frames):
            file.write(bytes([frame % 251]) * 27648)
    monkeypatch.setattr(raw_frames, "_MAX_MAPPED_BYTES", 1024 * MIB)
    (all_of_it,) = run_in_processes("fork", most_resident, [(tmp_path, num_frames, shape)])
    assert all_of_it > 70 * MIB
    monkeypatch.setattr(raw_frames, "_MAX_MAPPED_BYTES", 8 * MIB)
    (limited,) = run_in_processes("fork", most_resident, [(tmp_path, num_frames, shape)])
    assert limited < 24 * MIB, f"{limited / MIB:.1f} MiB"


def test_frames_that_left_memory_are_fetched_together(tmp_path, monkeypatch):
    source, frames = make_frames(tmp_path, 64, (3, 96, 96))
    for frame in range(64):
        frames.write(frame, source.expected(np.array(frame)).tobytes())
    fetched = []
    monkeypatch.setattr(frames, "_fetch", lambda numbers: fetched.append(len(numbers)))
    out = np.empty((64, 3, 96, 96), np.uint8)
    for _ in range(3):
        frames.read(np.arange(64), out)
    # Only the first time it is not known yet that all of them are in memory.
    assert fetched == [64]
    assert np.array_equal(out, source.expected(np.arange(64)))


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    _, frames = make_frames(tmp_path, 3)

    def full(descriptor, content, offset):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space"):
        frames.write(0, bytes(192))
