"""Frames by number."""

import os
import pickle
from pathlib import Path

import av
import numpy as np
import pytest

from manyhands.data.images import video
from manyhands.data.images.encoder import inherited_scheduling
from manyhands.data.images.video import VideoReader
from manyhands.errors import DatasetError


def write_video(
    path: Path, pictures: list[np.ndarray], codec: str = "libx264", **options: str
) -> Path:
    """A file as other tools make them: long keyframe distance, reordered frames."""
    options = options if codec != "libx264" else {"crf": "1", **options}
    with inherited_scheduling(), av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=30, options=options)
        stream.height, stream.width, stream.pix_fmt = *pictures[0].shape[:2], "yuv420p"
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return path


def test_a_random_frame_equals_the_one_read_in_sequence(shared):
    (path,) = (shared / "data" / "pusht" / "videos").rglob("*.mp4")
    sequence = list(VideoReader(10).frames(path, np.arange(60)))
    reader = VideoReader(10)
    for number in np.random.default_rng(0).permutation(60):
        (frame,) = reader.frames(path, np.array([number]))
        assert np.array_equal(frame, sequence[number])


@pytest.mark.parametrize("bframes", ["0", "3"])
def test_frames_between_distant_keyframes_are_found(tmp_path, picture, bframes):
    pictures = [picture(32, 32, number) for number in range(40)]
    path = write_video(tmp_path / "long.mp4", pictures, g="30", bf=bframes)
    reader = VideoReader(30)
    for numbers in ([5, 6, 20], [39], [0], [31, 38], [29, 30]):
        for number, frame in zip(numbers, reader.frames(path, np.array(numbers)), strict=True):
            distances = [np.abs(frame.astype(int) - other).mean() for other in pictures]
            assert np.argmin(distances) == number


CODECS = {
    "libsvtav1": {"g": "12", "crf": "20"},
    "libx264": {"g": "12", "bf": "2", "crf": "1"},
    "libx265": {"x265-params": "keyint=12:log-level=none:pools=1", "crf": "4"},
    "mpeg4": {"g": "12", "bf": "2", "b": "4000000"},
    "libvpx-vp9": {"g": "12", "deadline": "realtime", "cpu-used": "8", "crf": "4", "b": "0"},
}


@pytest.mark.parametrize("codec", CODECS)
def test_random_frames_of_every_common_codec_are_those_of_the_sequence(tmp_path, picture, codec):
    if codec not in av.codecs_available:
        pytest.skip(f"PyAV was built without {codec}")
    pictures = [picture(64, 64, number) for number in range(30)]
    path = write_video(tmp_path / "video.mp4", pictures, codec, **CODECS[codec])
    with av.open(str(path)) as container:
        sequence = list(VideoReader(30).frames(path, np.arange(30)))
        assert len(list(container.decode(video=0))) == 30
    reader = VideoReader(30)
    for number in np.random.default_rng(1).permutation(30):
        (frame,) = reader.frames(path, np.array([number]))
        assert np.array_equal(frame, sequence[number])
        assert np.argmin([np.abs(frame.astype(int) - other).mean() for other in pictures]) == number


def test_frames_shown_before_their_keyframe_are_found(tmp_path, picture):
    pictures = [picture(32, 32, number) for number in range(40)]
    open_groups = "open-gop=1:keyint=8:scenecut=0:bframes=3:b-adapt=0"
    path = write_video(tmp_path / "open.mp4", pictures, **{"x264-params": open_groups})
    for number in np.random.default_rng(0).permutation(40):
        (frame,) = VideoReader(30).frames(path, np.array([number]))
        distances = [np.abs(frame.astype(int) - other).mean() for other in pictures]
        assert np.argmin(distances) == number


def test_remarks_in_no_known_encoding_do_no_harm(tmp_path, picture):
    path = write_video(tmp_path / "remark.mp4", [picture(32, 32, 0)])
    content = path.read_bytes()
    assert content.count(b"Lavf") == 1
    path.write_bytes(content.replace(b"Lavf", b"\xe9\xe9\xe9\xe9"))
    assert len(list(VideoReader(30).frames(path, np.array([0])))) == 1


def test_the_last_frame_can_be_followed_by_any_other(tmp_path, picture):
    path = write_video(tmp_path / "short.mp4", [picture(32, 32, number) for number in range(4)])
    reader = VideoReader(30)
    first, last = reader.frames(path, np.array([0, 3]))
    again = list(reader.frames(path, np.array([0, 3])))
    assert np.array_equal(first, again[0])
    assert np.array_equal(last, again[1])


def test_a_frame_beyond_the_end_is_an_error_and_others_stay_readable(tmp_path, picture):
    path = write_video(tmp_path / "short.mp4", [picture(32, 32, number) for number in range(4)])
    reader = VideoReader(30)
    with pytest.raises(DatasetError, match=r"short\.mp4 has no frame 4"):
        list(reader.frames(path, np.array([4])))
    assert len(list(reader.frames(path, np.array([1, 2])))) == 2


@pytest.mark.parametrize("content", [b"", b"no video at all" * 100])
def test_a_file_that_is_no_video_is_named(tmp_path, content):
    path = tmp_path / "broken.mp4"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"broken\.mp4 is (damaged|empty)"):
        list(VideoReader(30).frames(path, np.array([0])))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DatasetError, match=r"absent\.mp4 is missing"):
        list(VideoReader(30).frames(tmp_path / "absent.mp4", np.array([0])))


def test_open_files_are_bounded(tmp_path, picture, monkeypatch):
    monkeypatch.setattr(video, "_MAX_OPEN_FILES", 2)
    paths = [write_video(tmp_path / f"{n}.mp4", [picture(32, 32, n)]) for n in range(5)]
    open_files = Path("/proc/self/fd")
    before, reader = len(list(open_files.iterdir())), VideoReader(30)
    for path in paths * 2:
        assert len(list(reader.frames(path, np.array([0])))) == 1
    assert len(list(open_files.iterdir())) <= before + 2


def test_a_reader_travels_without_its_open_files(tmp_path, picture):
    path = write_video(tmp_path / "short.mp4", [picture(32, 32, 0)])
    reader = VideoReader(30)
    (frame,) = reader.frames(path, np.array([0]))
    (again,) = pickle.loads(pickle.dumps(reader)).frames(path, np.array([0]))
    assert np.array_equal(frame, again)


def test_a_forked_process_opens_files_of_its_own(tmp_path, picture):
    path = write_video(tmp_path / "short.mp4", [picture(32, 32, number) for number in range(8)])
    reader = VideoReader(30)
    whole = list(reader.frames(path, np.arange(8)))
    child = os.fork()
    if child == 0:
        frames = reader.frames(path, np.array([7, 1]))
        os._exit(0 if np.array_equal(next(frames), whole[7]) else 1)
    (frame,) = reader.frames(path, np.array([2]))
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(frame, whole[2])
