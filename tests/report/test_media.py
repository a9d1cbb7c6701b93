"""Images and videos in a page."""

from base64 import b64decode
from io import BytesIO
from pathlib import Path

import av
import numpy as np
import pytest
from page_runs import NUM_FRAMES, episode

from manyhands.evaluation.films import write_video
from manyhands.report.media import (
    MAX_HEIGHT,
    NUM_STILLS,
    Allowance,
    image_uri,
    still_places,
    still_uris,
    video_uri,
)


def decoded(uri: str) -> np.ndarray:
    head, body = uri.split(",")
    assert head == "data:image/jpeg;base64"
    with av.open(BytesIO(b64decode(body)), "r") as file:
        return next(file.decode(video=0)).to_ndarray(format="rgb24")


@pytest.fixture
def video(tmp_path: Path) -> Path:
    return write_video(tmp_path, episode(0, True, NUM_FRAMES))


def test_an_image_looks_like_its_frame() -> None:
    frame = np.zeros((48, 64, 3), np.uint8)
    frame[:, 32:] = (200, 100, 50)
    image = decoded(image_uri(frame))
    assert image.shape == frame.shape
    assert np.abs(image.astype(int) - frame)[:, [5, 60]].max() < 12


def test_large_images_are_scaled_down_with_their_proportions() -> None:
    assert decoded(image_uri(np.zeros((480, 640, 3), np.uint8))).shape == (MAX_HEIGHT, 192, 3)


@pytest.mark.parametrize("size", [(1, 1), (33, 17), (5, 1000)])
def test_odd_sizes_are_images_too(size: tuple[int, int]) -> None:
    assert decoded(image_uri(np.zeros((*size, 3), np.uint8))).size > 0


def test_stills_are_spread_evenly_over_a_video_in_order(video: Path) -> None:
    stills = [decoded(uri).mean() for uri in still_uris(video)]
    places = still_places(NUM_FRAMES)
    assert len(stills) == NUM_STILLS and (places[0], places[-1]) == (0, NUM_FRAMES - 1)
    assert np.allclose(stills, [20 * place for place in places], atol=6)
    assert still_uris(video) == still_uris(video)


def test_a_short_video_shows_every_frame() -> None:
    assert still_places(3) == [0, 1, 2]
    assert still_places(0) == []


def test_a_video_is_carried_as_it_is(video: Path) -> None:
    head, body = (video_uri(video) or "").split(",")
    assert head == "data:video/mp4;base64" and b64decode(body) == video.read_bytes()


@pytest.mark.parametrize("content", [b"", b"<script>", b"\0\0\0\x18ftypmp42" + b"\0" * 50])
def test_what_is_no_video_is_not_shown(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.mp4"
    file.write_bytes(content)
    assert still_uris(file) == [] and still_uris(tmp_path / "none.mp4") == []
    assert (video_uri(file) is None) == (b"ftyp" not in content)


def test_a_large_video_is_not_carried(tmp_path: Path) -> None:
    file = tmp_path / "x.mp4"
    file.write_bytes(b"\0\0\0\x18ftyp" + b"\0" * 2_000_000)
    assert video_uri(file) is None and video_uri(tmp_path / "none.mp4") is None


def test_an_allowance_is_given_to_whoever_fits() -> None:
    allowance = Allowance(10)
    assert allowance.takes("12345", "678")
    assert not allowance.takes("123")
    assert allowance.takes("12")
    assert not allowance.takes("1")
