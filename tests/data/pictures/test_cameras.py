"""Cameras as columns."""

import numpy as np
import torch

from manyhands.data.pictures.cameras import ImageColumn, VideoColumn, locate_clips
from manyhands.data.pictures.stored_bytes import StoredBytes
from manyhands.data.pictures.video import VideoReader
from manyhands.data.selection import Source, select_episodes
from manyhands.data.writing.output_files import SizeLimits
from manyhands.lerobot_format.dataset import read_dataset_meta


def make_source(root, episodes=None) -> Source:
    meta = read_dataset_meta(root)
    return Source(root, meta, select_episodes(meta.episodes, episodes))


def test_a_clip_begins_where_the_episode_does_in_its_file(plain_root):
    frame_index = np.array([0, 1, 2, 0, 1, 2, 3, 4, 5])
    clips = locate_clips(make_source(plain_root, [1, 2]), "observation.images.top", frame_index)
    files, numbers = clips.locate(np.array([0, 2, 3, 8]))
    assert files.tolist() == [0, 0, 0, 0]
    assert numbers.tolist() == [5, 7, 8, 13]


def test_video_frames_come_from_every_file_in_the_order_asked_for(record, tmp_path):
    frames = record(tmp_path / "dataset", (3, 2), limits=SizeLimits(1, 1, 1))
    source = make_source(tmp_path / "dataset")
    clips = locate_clips(source, "observation.images.top", np.array([0, 1, 2, 0, 1]))
    column = VideoColumn((3, 32, 48), clips, VideoReader(10))
    rows = np.array([[4, 0], [2, 2], [1, 3]])
    pictures = column.read(rows)
    assert pictures.shape == (3, 2, 3, 32, 48)
    sources = np.stack([frame["observation.images.top"].transpose(2, 0, 1) for frame in frames])
    distances = np.abs(pictures.numpy()[:, :, None].astype(int) - sources).mean(axis=(3, 4, 5))
    assert distances.argmin(axis=2).tolist() == rows.tolist()
    assert distances.min(axis=2).max() < 6


def test_stored_pictures_come_back_to_the_last_pixel(record, tmp_path):
    frames = record(tmp_path / "dataset", (3, 2))
    column = ImageColumn(
        "observation.image", (3, 16, 24), StoredBytes(make_source(tmp_path / "dataset"))
    )
    rows = np.array([[4, 0], [1, 4]])
    pictures = [frames[row]["observation.image"].transpose(2, 0, 1) for row in rows.reshape(-1)]
    expected = torch.from_numpy(np.stack(pictures).reshape(2, 2, 3, 16, 24))
    assert torch.equal(column.read(rows), expected)
