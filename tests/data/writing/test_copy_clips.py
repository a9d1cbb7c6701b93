"""Clips are cut out as they are, or encoded again where they cannot be."""

import json

import numpy as np
import pytest

from manyhands.data.episodes import Source, select_episodes
from manyhands.data.images.encoder import ClipEncoder, ClipFile
from manyhands.data.writing.copy_clips import CameraClips
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

TOP = "observation.images.top"


def clips_of(root) -> CameraClips:
    meta = read_dataset_meta(root)
    return CameraClips(Source(root, meta, select_episodes(meta.episodes, None)), TOP, 10)


def join_episodes(root, picture) -> list[np.ndarray]:
    """One clip for all episodes, whose keyframes lie two frames apart."""
    encoder, pictures = ClipEncoder(10, 32, 48), [picture(32, 48, number) for number in range(14)]
    for pixels in pictures:
        encoder.add(pixels)
    file = ClipFile(root / "videos" / TOP / "chunk-000" / "file-000.mp4", 10)
    file.append(encoder.finish())
    file.close()
    return pictures


def test_clips_of_our_own_recordings_are_cut_out(plain_root):
    clips = clips_of(plain_root)
    assert [clips.clip(episode).num_frames for episode in (2, 0, 1)] == [6, 5, 3]
    assert clips.num_encoded == 0
    clips.close()


def test_a_clip_between_keyframes_is_encoded_again(record, tmp_path, picture):
    root = tmp_path / "dataset"
    record(root, (5, 3, 6))
    pictures = join_episodes(root, picture)
    clips = clips_of(root)
    cut = [clips.clip(episode) for episode in range(3)]
    assert [clip.num_frames for clip in cut] == [5, 3, 6]
    # The second episode begins with frame 5, which is no keyframe.
    assert clips.num_encoded == 1
    file = ClipFile(tmp_path / "second.mp4", 10)
    file.append(cut[1])
    file.close()
    from manyhands.data.images.video import VideoReader

    frames = VideoReader(10).frames(tmp_path / "second.mp4", np.arange(3))
    for frame, expected in zip(frames, pictures[5:8], strict=True):
        assert np.abs(frame.astype(int) - expected).mean() < 8


def test_distances_are_not_encoded_again(record, tmp_path, picture):
    root = tmp_path / "dataset"
    record(root, (5, 3, 6))
    join_episodes(root, picture)
    info = json.loads((root / "meta/info.json").read_text())
    info["features"][TOP]["info"]["is_depth_map"] = True
    (root / "meta/info.json").write_text(json.dumps(info))
    clips = clips_of(root)
    clips.clip(0)
    with pytest.raises(DatasetError, match=r"--exclude_episodes=\[1\]"):
        clips.clip(1)


def test_a_video_shorter_than_told_is_named(record, tmp_path, picture):
    root = tmp_path / "dataset"
    record(root, (5, 3, 9))
    join_episodes(root, picture)
    with pytest.raises(DatasetError, match=r"file-000\.mp4 has no frame 14"):
        clips_of(root).clip(2)
