"""Filmstrips show a rollout from first to last frame."""

from base64 import b64decode
from io import BytesIO

import av
import numpy as np
import pytest

from manyhands.data.images.image_files import encode_png
from manyhands.report.page import GAP, MAX_FRAMES, filmstrip, filmstrip_uri


def flat(color: int, height: int = 10, width: int = 12) -> np.ndarray:
    return np.full((height, width, 3), color, dtype=np.uint8)


def test_frames_stand_in_order_with_see_through_gaps() -> None:
    strip = filmstrip([flat(10), flat(20), flat(30)])
    assert strip.shape == (10, 3 * 12 + 2 * GAP, 4)
    assert [int(strip[5, left, 0]) for left in (0, 12 + GAP, 24 + 2 * GAP)] == [10, 20, 30]
    assert strip[:, 12 : 12 + GAP, 3].max() == 0 and strip[:, :12, 3].min() == 255


def test_a_long_rollout_is_sampled_evenly_with_both_ends() -> None:
    strip = filmstrip([flat(color, width=1) for color in range(50)])
    shown = strip[0, :: 1 + GAP, 0]
    assert list(shown) == [0, 7, 14, 21, 28, 35, 42, 49] and len(shown) == MAX_FRAMES


def test_large_frames_are_averaged_down() -> None:
    frame = np.zeros((480, 640, 3), dtype=np.uint8)
    frame[::3] = 90
    strip = filmstrip([frame])
    assert strip.shape == (160, 213, 4)
    assert np.all(strip[..., :3] == 30)


def test_frames_of_different_sizes_share_a_strip() -> None:
    assert filmstrip([flat(1), flat(2, height=20, width=4)]).shape == (20, 16 + GAP, 4)


@pytest.mark.parametrize("size", [(1, 1), (33, 17)])
def test_pictures_survive_encoding_bit_for_bit(size: tuple[int, int]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (*size, 4), dtype=np.uint8)
    with av.open(BytesIO(encode_png(picture)), "r") as file:
        decoded = next(file.decode(video=0)).to_ndarray(format="rgba")
    assert np.array_equal(decoded, picture)


def test_the_uri_carries_a_png_and_is_the_same_every_time() -> None:
    frames = [flat(10), flat(20)]
    head, body = filmstrip_uri(frames).split(",")
    assert head == "data:image/png;base64"
    assert b64decode(body).startswith(b"\x89PNG\r\n\x1a\n")
    assert filmstrip_uri(frames) == filmstrip_uri(list(frames))
