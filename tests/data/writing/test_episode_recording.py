"""Frames are checked before anything of them is kept."""

import numpy as np
import pytest

from manyhands.data.writing.episode_recording import EpisodeRecording
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.info import parse_features


@pytest.fixture
def recording(features) -> EpisodeRecording:
    return EpisodeRecording(10, parse_features(features))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"action": None}, "frame 0 lacks action"),
        ({"task": None}, "frame 0 lacks task"),
        ({"actoin": np.zeros(2)}, "frame 0 has unknown actoin"),
        ({"action": np.zeros(2, dtype=np.float32)}, "action must have dtype float64, not float32"),
        ({"action": np.zeros(3)}, r"action must have shape \(2,\), not \(3,\)"),
        ({"note": 3}, "note must be a string, not 3"),
        ({"task": 3}, "task must be a string, not 3"),
        ({"observation.image": np.zeros((16, 24, 3))}, "image must have dtype uint8, not float64"),
        ({"observation.image": np.zeros((3, 16, 24), dtype=np.uint8)}, "must have shape"),
    ],
)
def test_a_faulty_frame_is_named_and_not_kept(recording, frame, change, message):
    faulty = {key: value for key, value in (frame(0, "t") | change).items() if value is not None}
    with pytest.raises(DatasetError, match=message):
        recording.add(faulty)
    assert len(recording) == 0
    recording.add(frame(0, "t"))
    assert len(recording.columns()["action"]) == 1


def test_a_scalar_needs_no_axis(recording, frame):
    recording.add(frame(0, "t") | {"next.reward": np.float32(0.5)})
    assert recording.columns()["next.reward"].tolist() == [[0.5]]


def test_values_changed_by_the_caller_later_stay_as_they_were(recording, frame):
    first = frame(0, "t")
    expected = first["action"].copy()
    recording.add(first)
    first["action"][:] = 0
    first["observation.images.top"][:] = 0
    assert recording.columns()["action"].tolist() == [expected.tolist()]
    assert recording.stats({})["observation.images.top"]["max"].max() > 0.5


def test_pictures_declared_channel_first_are_taken_either_way(picture):
    features = {
        "top": {"dtype": "image", "shape": [3, 8, 12], "names": ["channels", "height", "width"]}
    }
    recording = EpisodeRecording(10, parse_features(features))
    pixels = picture(8, 12, 0)
    recording.add({"top": pixels, "task": "t"})
    recording.add({"top": pixels.transpose(2, 0, 1), "task": "t"})
    first, second = recording.columns()["top"]
    assert first == second


def test_statistics_cover_cameras_and_numbers(recording, frame):
    for number in range(3):
        recording.add(frame(number, "t"))
    stats = recording.stats(recording.columns())
    assert stats["observation.images.top"]["count"].tolist() == [3]
    assert stats["observation.grid"]["mean"].shape == (3,)
    assert "note" not in stats
