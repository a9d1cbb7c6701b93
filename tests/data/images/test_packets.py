"""Videos cut and joined without a change to any pixel."""

import av
import numpy as np
import pytest

from manyhands.data.images.encoder import ClipFile, inherited_scheduling
from manyhands.data.images.packets import EncodedVideo
from manyhands.errors import DatasetError

FPS = 10
# On processors with AVX-512, libx265 writes beyond its buffers where frames are smaller.
HEIGHT, WIDTH = 64, 96
QUIET = "log-level=none:pools=1"
CLOSED = {"g": "4", "bf": "2", "x265-params": f"open-gop=0:{QUIET}"}
CODECS = {
    "av1": ("libsvtav1", {"g": "4"}, "yuv420p"),
    "h264": ("libx264", {"g": "4", "bf": "2"}, "yuv420p"),
    "hevc": ("libx265", CLOSED, "yuv420p"),
    "mpeg4": ("mpeg4", {"g": "4", "bf": "0"}, "yuv420p"),
    "mpeg4 out of order": ("mpeg4", {"g": "4", "bf": "2"}, "yuv420p"),
    "vp9": ("libvpx-vp9", {"g": "4", "deadline": "realtime", "cpu-used": "8"}, "yuv420p"),
    "depth": ("libx265", {"g": "2", "x265-params": f"lossless=1:{QUIET}"}, "gray12le"),
}
NEVER_FRESH = {"x265-params": f"open-gop=1:bframes=0:scenecut=0:keyint=4:{QUIET}"}


def write_video(path, picture, num_frames, codec, fps=FPS) -> None:
    encoder, options, pixel_format = CODECS[codec] if isinstance(codec, str) else codec
    if encoder not in av.codecs_available:
        pytest.skip(f"PyAV was built without {encoder}")
    with inherited_scheduling(), av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream(encoder, rate=fps, options=options)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, pixel_format
        for number in range(num_frames):
            frame = av.VideoFrame.from_ndarray(picture(HEIGHT, WIDTH, number), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def decoded(path) -> tuple[list[float], list[np.ndarray]]:
    """Times and pixels of all frames, in the order they are shown."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = [(frame.time, frame.to_ndarray()) for frame in container.decode(stream)]
    return [time for time, _ in frames], [pixels for _, pixels in frames]


def joined(path, clips) -> tuple[list[float], list[np.ndarray]]:
    file = ClipFile(path, FPS)
    for clip in clips:
        assert file.takes(clip)
        file.append(clip)
    file.close()
    return decoded(path)


@pytest.mark.parametrize("codec", CODECS)
def test_whole_clips_are_joined_to_the_last_pixel(tmp_path, picture, codec):
    lengths, clips, expected = (9, 1, 6), [], []
    for number, length in enumerate(lengths):
        path = tmp_path / f"{number}.mp4"
        write_video(path, picture, length, codec)
        clips.append(EncodedVideo(path, FPS).cut(0, length))
        expected += decoded(path)[1]
    times, frames = joined(tmp_path / "joined.mp4", clips)
    assert times == pytest.approx(np.arange(sum(lengths)) / FPS, abs=1e-9)
    assert len(frames) == len(expected)
    assert all(map(np.array_equal, frames, expected))


@pytest.mark.parametrize("codec", CODECS)
def test_whatever_can_be_cut_out_is_exact(tmp_path, picture, codec):
    path, num_frames = tmp_path / "source.mp4", 14
    write_video(path, picture, num_frames, codec)
    source, expected = EncodedVideo(path, FPS), decoded(path)[1]
    firsts = set()
    for first in range(num_frames):
        for length in range(1, num_frames - first + 1, 3):
            clip = source.cut(first, length)
            if clip is None:
                continue
            firsts.add(first)
            again = source.cut(first, length)
            file = ClipFile(tmp_path / "cut.mp4", FPS)
            for each in (clip, again) if clip.is_decodable_alone else (clip,):
                file.append(each)
            file.close()
            frames = decoded(tmp_path / "cut.mp4")[1]
            wanted = expected[first : first + length] * (2 if clip.is_decodable_alone else 1)
            assert len(frames) == len(wanted)
            assert all(map(np.array_equal, frames, wanted)), (first, length)
    assert 0 in firsts
    assert len(firsts) < num_frames


def test_a_stretch_that_is_not_there_is_not_cut(tmp_path, picture):
    write_video(tmp_path / "v.mp4", picture, 6, "h264")
    source = EncodedVideo(tmp_path / "v.mp4", FPS)
    assert source.cut(0, 7) is None
    assert source.cut(6, 1) is None
    assert source.cut(2**60, 1) is None
    assert source.cut(0, 6).num_frames == 6


def test_a_clip_encoded_otherwise_needs_another_file(tmp_path, picture):
    write_video(tmp_path / "a.mp4", picture, 4, "h264")
    write_video(tmp_path / "b.mp4", picture, 4, "mpeg4")
    write_video(tmp_path / "c.mp4", picture, 4, ("libx264", {"profile": "baseline"}, "yuv420p"))
    clips = [EncodedVideo(tmp_path / f"{name}.mp4", FPS).cut(0, 4) for name in "abc"]
    file = ClipFile(tmp_path / "joined.mp4", FPS)
    assert all(file.takes(clip) for clip in clips)
    file.append(clips[0])
    assert [file.takes(clip) for clip in clips] == [True, False, False]
    file.close()


def test_a_clip_that_looks_back_begins_a_file(tmp_path, picture):
    """Some keyframes let a decoder go on counting from earlier frames, and would confuse it."""
    path = tmp_path / "source.mp4"
    write_video(path, picture, 8, ("libx265", NEVER_FRESH, "yuv420p"))
    source, expected = EncodedVideo(path, FPS), decoded(path)[1]
    first, second = source.cut(0, 4), source.cut(4, 4)
    assert first.is_decodable_alone
    assert not second.is_decodable_alone
    file = ClipFile(tmp_path / "first.mp4", FPS)
    file.append(first)
    assert not file.takes(second)
    file.close()
    assert all(map(np.array_equal, joined(tmp_path / "b.mp4", [second])[1], expected[4:]))


def test_times_become_exact_whatever_the_clock_of_the_source(tmp_path, picture):
    """A rate that the clock of a file cannot divide leaves times beside their frames."""
    path = tmp_path / "source.mp4"
    with av.open(str(path), "w", format="mp4", options={"video_track_timescale": "1000"}) as output:
        stream = output.add_stream("mpeg4", rate=30)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for number in range(7):
            frame = av.VideoFrame.from_ndarray(picture(HEIGHT, WIDTH, number), format="rgb24")
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    assert decoded(path)[0][1] == 0.033
    file = ClipFile(tmp_path / "copy.mp4", 30)
    file.append(EncodedVideo(path, 30).cut(0, 7))
    file.append(EncodedVideo(path, 30).cut(0, 7))
    file.close()
    times, _ = decoded(tmp_path / "copy.mp4")
    assert times == pytest.approx(np.arange(14) / 30, abs=1e-12)


@pytest.mark.parametrize(("content", "message"), [(None, "missing"), (b"no video", "damaged")])
def test_files_that_cannot_be_read_are_named(tmp_path, content, message):
    path = tmp_path / "v.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DatasetError, match=rf"v\.mp4 is {message}"):
        EncodedVideo(path, FPS)
