"""Cameras, read by frame."""

import json
from pathlib import Path
from typing import ClassVar

import av
import numpy as np
import pytest

from manyhands.data.dataset import open_dataset
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.images.cameras import CameraColumn, EmbeddedImages, VideoFrames
from manyhands.data.images.formats import image_format
from manyhands.data.writing.output_files import SizeLimits
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

VIDEO = "observation.images.top"
STORED = "observation.image"


def make_source(root, episodes=None) -> Source:
    meta = read_dataset_meta(root)
    return Source(root, meta, select_episodes(meta.episodes, episodes))


def read(pictures, frames) -> np.ndarray:
    column = CameraColumn(pictures, drops_single_axis=True)
    out = np.empty((*frames.shape, *column.shape), column.dtype)
    column.read_into(frames, out)
    return out


def nearest(pictures: np.ndarray, originals: list[np.ndarray]) -> list:
    """Which of the recorded pictures each one looks like; compression changes them a little."""
    recorded = np.stack([each.transpose(2, 0, 1) for each in originals]).astype(int)
    distances = np.abs(pictures[..., None, :, :, :].astype(int) - recorded).mean(axis=(-3, -2, -1))
    assert distances.min(axis=-1).max() < 6
    return distances.argmin(axis=-1).tolist()


@pytest.mark.parametrize("limits", [None, SizeLimits(1, 1, 1)])
def test_video_frames_come_in_the_order_asked_for(record, tmp_path, limits):
    recorded = record(tmp_path / "dataset", (3, 2, 4), limits=limits)
    source = make_source(tmp_path / "dataset", [1, 2])
    pictures = VideoFrames(source, VIDEO, image_format(source.meta.info.features[VIDEO]))
    frames = np.array([[8, 3], [4, 4], [3, 5]])
    assert nearest(read(pictures, frames), [each[VIDEO] for each in recorded]) == frames.tolist()


def test_stored_pictures_come_back_to_the_last_pixel(record, tmp_path):
    recorded = record(tmp_path / "dataset", (3, 2))
    source = make_source(tmp_path / "dataset")
    pictures = EmbeddedImages(source, STORED, image_format(source.meta.info.features[STORED]))
    frames = np.array([[4, 0], [1, 4]])
    expected = np.stack([each[STORED].transpose(2, 0, 1) for each in recorded])[frames]
    assert np.array_equal(read(pictures, frames), expected)


@pytest.mark.parametrize(("key", "kind"), [(VIDEO, VideoFrames), (STORED, EmbeddedImages)])
def test_pictures_are_resized_as_they_are_decoded(plain_root, key, kind):
    source = make_source(plain_root)
    feature = source.meta.info.features[key]
    whole, half = (
        read(kind(source, key, image_format(feature, size)), np.arange(3))
        for size in (None, (feature.shape[0] // 2, feature.shape[1] // 2))
    )
    blocks = whole.reshape(3, 3, half.shape[2], 2, half.shape[3], 2).mean(axis=(3, 5))
    assert half.shape == (3, 3, feature.shape[0] // 2, feature.shape[1] // 2)
    # A video's colors have half the resolution, which the smaller picture need not blow up first.
    assert np.abs(half - blocks).mean() < (5 if key == VIDEO else 1)


def test_equal_frames_are_decoded_once():
    class Counting:
        shape, dtype = (1, 1, 1), np.dtype("u1")
        asked: ClassVar[list[int]] = []

        def pictures(self, frames):
            self.asked += frames.tolist()
            yield from (np.full(self.shape, frame) for frame in frames)

    out = np.empty((3, 2, 1, 1, 1), np.uint8)
    CameraColumn(Counting(), False).read_into(np.array([[7, 2], [2, 2], [9, 7]]), out)
    assert out.reshape(3, 2).tolist() == [[7, 2], [2, 2], [9, 7]]
    assert Counting.asked == [2, 7, 9]


def test_a_missing_video_of_a_chosen_episode_is_named(damaged_root):
    path = damaged_root / "videos" / VIDEO / "chunk-001" / "file-000.mp4"
    path.unlink()
    with pytest.raises(DatasetError, match=rf"{path} is missing"):
        open_dataset(root=damaged_root)
    assert len(open_dataset(root=damaged_root, episodes=[0])) == 3


DEPTH_INFO = {"is_depth_map": True, "depth_unit": "mm"}


def with_depth_video(root: Path, millimeters: np.ndarray, num_frames: int) -> None:
    """Turn the video camera of a recorded dataset into one of depth."""
    info = json.loads((root / "meta" / "info.json").read_text())
    info["features"][VIDEO] |= {"shape": [*millimeters.shape, 1], "info": DEPTH_INFO}
    (root / "meta" / "info.json").write_text(json.dumps(info))
    shifted = np.log(millimeters / 1000 + 3.5) - np.log(3.51)
    codes = np.rint(4095 * shifted / (np.log(13.5) - np.log(3.51))).astype(np.uint16)
    (path,) = (root / "videos" / VIDEO).rglob("*.mp4")
    with av.open(str(path), "w") as container:
        options = {"x265-params": "lossless=1:log-level=none"}
        stream = container.add_stream("libx265", rate=10, options=options)
        stream.height, stream.width = millimeters.shape
        stream.pix_fmt = "gray12le"
        for _ in range(num_frames):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(codes, format="gray12le")))
        container.mux(stream.encode(None))


@pytest.mark.parametrize(("unit", "scale", "error"), [("mm", 1, 1), ("m", 1000, 1.35)])
def test_depth_videos_bring_back_distances_to_a_code(record, tmp_path, unit, scale, error):
    millimeters = np.rint(np.linspace(500, 4499, 64 * 64)).reshape(64, 64)
    record(tmp_path / "dataset", (4,))
    with_depth_video(tmp_path / "dataset", millimeters, 4)
    source = make_source(tmp_path / "dataset")
    form = image_format(source.meta.info.features[VIDEO], depth_unit=unit)
    pictures = read(VideoFrames(source, VIDEO, form), np.array([2, 0]))
    assert pictures.dtype == np.float32 and pictures.shape == (2, 1, 64, 64)
    assert np.abs(pictures * scale - millimeters).max() <= error
