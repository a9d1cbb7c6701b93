"""Film strips show an episode in order, within what is left of a page."""

from base64 import b64decode
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from page_datasets import CAMERA, SIDE, damage_video, read_files, write_dataset
from PIL import Image

from manyhands.lerobot_format.dataset.info import Feature
from manyhands.report.datasets import film_strips as module
from manyhands.report.datasets.film_strips import (
    film_strips,
    images_per_strip,
    shown_pixels,
    strip_size,
)
from manyhands.report.media import Allowance

PLENTY = 10**7


def strips(root: Path, episodes: list[int], num_bytes: int = PLENTY, num_images: int = 4):
    seen: list[tuple[int, int]] = []
    allowance = Allowance(num_bytes)
    found = film_strips(
        read_files(root), episodes, allowance, num_images, lambda *each: seen.append(each)
    )
    assert [done for done, _ in seen] == list(range(len(episodes)))
    return found


def pixels(uri: str) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(b64decode(uri.partition(",")[2]))), dtype=np.float64)


@pytest.mark.parametrize("kind", ["video", "image"])
def test_images_are_those_of_the_episode_in_order(tmp_path: Path, kind: str) -> None:
    root = write_dataset(tmp_path / "d", 3, kind)
    ((strip,),) = strips(root, [2]).values()
    assert strip.camera == CAMERA and strip.fault == "" and len(strip.images) == 4
    seen = [pixels(uri) for uri in strip.images]
    assert all(each.shape == (SIDE, SIDE, 3) for each in seen)
    # The red disk moves on from image to image.
    places = [np.argwhere(each[..., 0] > 120).mean(axis=0) for each in seen]
    lengths = [np.linalg.norm(place - places[0]) for place in places]
    assert lengths == sorted(lengths) and lengths[-1] > 2


def test_episodes_keep_the_order_in_which_they_are_asked_for(tmp_path: Path) -> None:
    assert list(strips(write_dataset(tmp_path / "d", 3), [2, 0, 1])) == [2, 0, 1]


def test_what_does_not_fit_or_cannot_be_decoded_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = damage_video(write_dataset(tmp_path / "d", 3), 1)
    found = strips(root, [0, 1, 2])
    assert found[1][0].fault and str(root) not in found[1][0].fault
    assert found[0][0].images and found[2][0].images
    size = sum(map(len, found[0][0].images))
    assert strips(root, [0, 2], size)[2][0].fault == "not shown: the page would exceed its size"
    monkeypatch.setattr(module, "DECODE_S", -1.0)
    assert "would take too long" in strips(root, [0])[0][0].fault


def test_a_missing_video_is_the_fault_of_its_own_episode(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "d", 3)
    sorted((root / "videos").rglob("*.mp4"))[1].unlink()
    found = strips(root, [0, 1, 2])
    assert "is missing" in found[1][0].fault and not found[1][0].images
    assert found[0][0].images and found[2][0].images
    assert strips(root, [1])[1][0].fault == found[1][0].fault


def test_no_images_are_decoded_if_none_are_wanted(tmp_path: Path) -> None:
    assert strips(write_dataset(tmp_path / "d", 1), [0], num_images=0) == {0: []}


def test_many_strips_have_fewer_images() -> None:
    assert images_per_strip(24, 6) == 6 and images_per_strip(150, 6) == 4
    assert images_per_strip(10_000, 6) == 3 and images_per_strip(10_000, 2) == 2


def test_strips_have_the_proportions_of_their_camera() -> None:
    assert strip_size(Feature("video", (480, 640, 3), ["height", "width", "channels"])) == (96, 128)
    assert strip_size(Feature("video", (3, 30, 60))) == (30, 60)


def test_gray_and_depth_become_colors() -> None:
    assert shown_pixels(np.full((1, 4, 6), 7, np.uint8)).tolist() == np.full((4, 6, 3), 7).tolist()
    depth = np.linspace(300, 900, 24, dtype=np.float32).reshape(1, 4, 6)
    gray = shown_pixels(depth)
    assert gray.dtype == np.uint8 and gray[0, 0, 0] == 0 and gray[-1, -1, 2] == 255
    assert shown_pixels(np.full((1, 4, 6), np.nan, np.float32)).max() == 0
