"""Clips and the files they are joined in."""

import os
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest

from manyhands.data.images import encoder
from manyhands.data.images.encoder import ClipEncoder, ClipFile, has_av1, stream_info
from manyhands.data.images.video import VideoReader
from manyhands.errors import DatasetError

LENGTHS = (1, 3, 2, 5)


@pytest.fixture(params=["av1", "h264"])
def codec(request, monkeypatch):
    """Both encoders; the second one stands in where the first is missing."""
    if request.param == "h264":
        monkeypatch.setattr(encoder, "_AV1", "an encoder nobody has")
    elif not has_av1():
        pytest.skip("PyAV was built without the AV1 encoder")
    return request.param


def write_clips(path, picture, fps) -> list[np.ndarray]:
    pictures, file = [], ClipFile(path, fps)
    for length in LENGTHS:
        clip = ClipEncoder(fps, 32, 48)
        for _ in range(length):
            pictures.append(picture(32, 48, len(pictures)))
            clip.add(pictures[-1])
        file.append(clip.finish())
    file.close()
    return pictures


@pytest.mark.usefixtures("codec")
@pytest.mark.parametrize("fps", [7, 30])
def test_clips_follow_each_other_without_a_gap(tmp_path, picture, fps):
    pictures = write_clips(tmp_path / "clips.mp4", picture, fps)
    read = list(VideoReader(fps).frames(tmp_path / "clips.mp4", np.arange(len(pictures))))
    for frame, expected in zip(read, pictures, strict=True):
        assert np.abs(frame.astype(int) - expected).mean() < 8


def test_every_clip_begins_with_a_keyframe_on_time(tmp_path, picture, codec):
    write_clips(tmp_path / "clips.mp4", picture, 30)
    with av.open(str(tmp_path / "clips.mp4")) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.codec.canonical_name == codec
        assert stream.average_rate == 30
        packets = [packet for packet in container.demux(stream) if packet.pts is not None]
        times = [float(packet.pts * stream.time_base) for packet in packets]
    assert times == pytest.approx(np.arange(len(packets)) / 30, abs=1e-9)
    for start in np.cumsum((0, *LENGTHS[:-1])):
        assert packets[start].is_keyframe
    assert not all(packet.is_keyframe for packet in packets)


@pytest.mark.usefixtures("codec")
def test_the_declared_facts_are_the_streams(tmp_path, picture):
    write_clips(tmp_path / "clips.mp4", picture, 30)
    facts = stream_info(30, 32, 48)
    with av.open(str(tmp_path / "clips.mp4")) as container:
        context = container.streams.video[0].codec_context
        assert facts["video.codec"] == context.codec.canonical_name
        assert facts["video.pix_fmt"] == context.pix_fmt
        assert (facts["video.height"], facts["video.width"]) == (context.height, context.width)


def test_sizes_no_codec_takes_are_refused():
    with pytest.raises(DatasetError, match="cannot encode a video of 0x0"):
        ClipEncoder(30, 0, 0).add(np.zeros((2, 2, 3), dtype=np.uint8))


@pytest.mark.usefixtures("codec")
def test_encoding_leaves_every_thread_in_its_scheduling_class(picture):
    clip = ClipEncoder(30, 64, 64)
    clip.add(picture(64, 64, 0))
    threads = Path("/proc/self/task").iterdir()
    policies = {os.sched_getscheduler(int(thread.name)) for thread in threads}
    clip.finish()
    assert policies == {os.sched_getscheduler(0)} == {os.SCHED_OTHER}


@pytest.mark.parametrize("ending", ["finish", "abandon"])
def test_encoding_prints_nothing(ending):
    code = (
        "import numpy as np; from manyhands.data.images.encoder import ClipEncoder;"
        "clip = ClipEncoder(10, 64, 64); clip.add(np.zeros((64, 64, 3), np.uint8));"
        f"clip.{ending}()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
