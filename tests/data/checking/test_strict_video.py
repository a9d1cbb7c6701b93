"""A decoder that hides no damage."""

from pathlib import Path

import av
import numpy as np
import pytest

from manyhands.data.checking.strict_video import StrictVideo
from manyhands.data.images.encoder import inherited_scheduling
from manyhands.data.images.formats import image_format
from manyhands.data.images.video import VideoReader
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.info import Feature

SIDE, NUM_FRAMES, FPS = 64, 24, 10
FORM = image_format(Feature("video", (SIDE, SIDE, 3), ["height", "width", "channels"]))
AV1 = ("libsvtav1", {"g": "2", "crf": "30", "preset": "12"})
H264 = ("libx264", {"x264-params": "keyint=6:scenecut=0:bframes=2"})
OPEN_GROUPS = ("libx264", {"x264-params": "open-gop=1:keyint=8:scenecut=0:bframes=3:b-adapt=0"})


def encode(path: Path, codec: str, options: dict[str, str], rate: int = FPS) -> Path:
    """A video of moving waves."""
    rows, columns = np.mgrid[:SIDE, :SIDE] / 10
    with inherited_scheduling(), av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream(codec, rate=rate, options=options)
        stream.width = stream.height = SIDE
        stream.pix_fmt = "yuv420p"
        for number in range(NUM_FRAMES):
            waves = [np.sin(columns + number), np.cos(rows + number), np.sin(rows - number)]
            pixels = (127 + 100 * np.stack(waves, axis=-1)).astype(np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def frames_of(path: Path) -> list[np.ndarray]:
    """What a decoder that asks no questions shows."""
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One video of each kind."""
    folder = tmp_path_factory.mktemp("videos")
    kinds = {"av1": AV1, "h264": H264, "open": OPEN_GROUPS}
    return {name: encode(folder / f"{name}.mp4", *kind) for name, kind in kinds.items()}


@pytest.mark.parametrize("kind", ["av1", "h264", "open"])
def test_every_frame_of_a_healthy_file_is_good(videos, kind):
    video = StrictVideo(videos[kind], FPS, FORM)
    assert video.examine(0, NUM_FRAMES).is_good.all()
    for number in range(NUM_FRAMES):
        assert video.examine(number, number + 1).is_good.all(), number
    assert (video.rate, video.has_even_spacing) == (FPS, True)
    assert video.codec == ("av1" if kind == "av1" else "h264")
    video.close()


def test_frames_beyond_the_end_are_told(videos):
    seen = StrictVideo(videos["av1"], FPS, FORM).examine(NUM_FRAMES - 2, NUM_FRAMES + 2)
    assert seen.is_good.tolist() == [True, True, False, False]
    assert seen.reason(NUM_FRAMES) == "no such frame"
    assert not StrictVideo(videos["av1"], FPS, FORM).examine(2**53, 2**53 + 1).is_good.any()


def test_nearly_every_flipped_bit_of_av1_that_shows_is_noticed(videos, tmp_path):
    content, healthy = videos["av1"].read_bytes(), frames_of(videos["av1"])
    first = content.index(b"mdat") + 4
    size = int.from_bytes(content[first - 8 : first - 4], "big") - 8
    chance = np.random.default_rng(0)
    num_noticed = num_hidden = 0
    for place, bit in zip(chance.integers(0, size, 40), chance.integers(0, 8, 40), strict=True):
        damaged = bytearray(content)
        damaged[first + place] ^= 1 << bit
        path = tmp_path / "damaged.mp4"
        path.write_bytes(damaged)
        seen = StrictVideo(path, FPS, FORM).examine(0, NUM_FRAMES)
        if not seen.is_good.all():
            num_noticed += 1
            # Damage stays within the group of two frames it was done to.
            assert (~seen.is_good).sum() <= 2
        elif _largest_difference(path, healthy) > 8:
            num_hidden += 1
    assert num_noticed > 30
    assert num_hidden <= 2


def _largest_difference(path: Path, healthy: list[np.ndarray]) -> int:
    shown = frames_of(path)
    return max(int(np.abs(a.astype(int) - b).max()) for a, b in zip(shown, healthy, strict=True))


def test_damage_spoils_no_other_group(videos, tmp_path):
    damaged = bytearray(videos["h264"].read_bytes())
    with av.open(str(videos["h264"])) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
        keyframes = [packet for packet in packets if packet.is_keyframe]
    assert len(keyframes) == 4
    start = keyframes[1].pos + 8
    damaged[start : start + 40] = bytes(40)
    path = tmp_path / "damaged.mp4"
    path.write_bytes(damaged)
    seen = StrictVideo(path, FPS, FORM).examine(0, NUM_FRAMES)
    # The decoder shows frames two later than it takes them in.
    assert seen.is_good[:4].all() and seen.is_good[12:].all()
    assert not seen.is_good[4:7].any()
    assert seen.reason(6) != "no such frame"


@pytest.mark.parametrize("kind", ["h264", "open"])
def test_whatever_is_damaged_a_good_frame_can_be_read_from_anywhere(videos, tmp_path, kind):
    content = videos[kind].read_bytes()
    chance = np.random.default_rng(0)
    num_bad = num_tried = 0
    # The encoder's bytes differ from run to run, and so does what damage does to them.
    while num_tried < 25 or (num_bad < 3 and num_tried < 200):
        num_tried += 1
        damaged = bytearray(content)
        damaged[chance.integers(40, len(content))] ^= 1 << chance.integers(0, 8)
        path = tmp_path / "damaged.mp4"
        path.write_bytes(damaged)
        try:
            seen = StrictVideo(path, FPS, FORM).examine(0, NUM_FRAMES)
        except DatasetError:
            continue
        num_bad += not seen.is_good.all()
        reader = VideoReader(FPS)
        for number in chance.permutation(np.flatnonzero(seen.is_good)):
            assert len([*reader.frames(path, np.array([number]))]) == 1
    assert num_bad > 2


def test_a_lost_list_of_keyframes_is_noticed(videos, tmp_path):
    path = tmp_path / "damaged.mp4"
    path.write_bytes(videos["av1"].read_bytes().replace(b"stss", b"lost"))
    is_good = StrictVideo(path, FPS, FORM).examine(0, NUM_FRAMES).is_good
    reader = VideoReader(FPS)
    for number in np.flatnonzero(is_good)[::-1]:
        assert len([*reader.frames(path, np.array([number]))]) == 1
    assert is_good[::2].all() and not is_good[1::2].any()


def test_numbers_against_the_order_of_showing_are_refused(videos, tmp_path):
    path = tmp_path / "mixed.mp4"
    with av.open(str(videos["h264"])) as source, av.open(str(path), "w") as target:
        stream = source.streams.video[0]
        copy = target.add_stream_from_template(stream, opaque=True)
        packets = [packet for packet in source.demux(stream) if packet.size]
        times = sorted(packet.pts for packet in packets[:6])
        for number, packet in enumerate(packets):
            packet.stream = copy
            packet.pts = times[number] if number < 6 else packet.pts
            target.mux(packet)
    seen = StrictVideo(path, FPS, FORM).examine(0, NUM_FRAMES)
    assert seen.is_good.tolist() == [False] * 6 + [True] * 18
    assert "order" in seen.reason(3)


def test_another_size_than_declared_is_told(videos):
    form = image_format(Feature("video", (SIDE, SIDE // 2, 3), ["height", "width", "channels"]))
    seen = StrictVideo(videos["av1"], FPS, form).examine(0, 2)
    assert not seen.is_good.any()
    assert f"3x{SIDE}x{SIDE}" in seen.reason(0)


def test_another_rate_shifts_all_frames(tmp_path):
    path = encode(tmp_path / "slow.mp4", *AV1, rate=5)
    video = StrictVideo(path, FPS, FORM)
    assert video.rate == 5
    assert not video.has_even_spacing
    assert video.examine(0, NUM_FRAMES).is_good.tolist() == [True, False] * (NUM_FRAMES // 2)


@pytest.mark.parametrize("content", [b"", b"nonsense" * 100, None])
def test_what_is_no_video_is_refused_by_name(tmp_path, content):
    path = tmp_path / "video.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"video\.mp4 is (damaged|missing|empty)"):
        StrictVideo(path, FPS, FORM)


def test_a_sound_is_no_video(tmp_path):
    path = tmp_path / "sound.mp4"
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("aac", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with pytest.raises(DatasetError, match="no video stream of a known codec"):
        StrictVideo(path, FPS, FORM)
