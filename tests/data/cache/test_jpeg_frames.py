"""Frames as JPEG, with an index beside them."""

import contextlib

import numpy as np
import pytest
from workbench import (
    EVERYTHING,
    NumberedPictures,
    num_wrong,
    open_camera,
    read,
    run_in_processes,
    store_of,
)

EVERY = np.arange(50)


@pytest.fixture
def camera(tmp_path):
    return open_camera(tmp_path, NumberedPictures(), encoding="jpeg")


def filled_by(camera):
    """Reads all frames; returns how many were there already."""
    num_missing = len(camera.missing(EVERY))
    read(camera, EVERY)
    return 50 - num_missing


def test_the_file_never_outgrows_its_budget(tmp_path):
    camera = open_camera(tmp_path, NumberedPictures(), encoding="jpeg", max_bytes=9000)
    expected = read(camera, EVERY)
    size = (store_of(camera).folder / "frames.bin").stat().st_size
    num_present, wrong = num_wrong(store_of(camera), NumberedPictures())
    assert 0 < num_present < 50 and wrong == 0
    assert 8000 < size <= 9000
    assert np.array_equal(read(camera, EVERY), expected)


@pytest.mark.parametrize("damage", ["bit", "truncated", "gone"])
def test_damaged_bytes_are_noticed_and_replaced(camera, damage):
    expected = read(camera, EVERY)
    path = store_of(camera).folder / "frames.bin"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    damaged = {"bit": content, "truncated": content[: len(content) // 3], "gone": b""}
    path.write_bytes(damaged[damage])
    camera._source.num_decoded = 0
    assert np.array_equal(read(camera, EVERY), expected)
    assert 0 < camera._source.num_decoded <= 50
    assert num_wrong(store_of(camera), NumberedPictures()) == (50, 0)


def test_processes_that_append_at_once_do_not_mix_their_bytes(camera):
    run_in_processes("fork", filled_by, [(camera,)] * 4)
    assert num_wrong(store_of(camera), NumberedPictures()) == (50, 0)


def test_frames_outlive_the_process(tmp_path, camera):
    read(camera, EVERY)
    with contextlib.closing(store_of(camera)):
        again = open_camera(tmp_path, NumberedPictures(), encoding="jpeg", max_bytes=EVERYTHING)
    assert filled_by(again) == 50
    assert again._source.num_decoded == 0
