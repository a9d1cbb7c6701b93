"""Encode video clips in memory, and append clips to files without re-encoding."""

import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from manyhands.data.images.packets import Clip, EncodedVideo
from manyhands.errors import DatasetError

PIXEL_FORMAT = "yuv420p"
KEYFRAME_INTERVAL = 2  # Short, so that a random frame costs at most two decoded ones
CRF = 30
AV1_PRESET = 12

_AV1 = "libsvtav1"
_H264 = "libx264"


class ClipEncoder:
    """One episode of one camera; every clip begins with a keyframe at time zero."""

    def __init__(self, fps: int, height: int, width: int) -> None:
        # Unless its log is turned low, the AV1 library prints its settings for every clip.
        os.putenv("SVT_LOG", "0")
        self.num_frames = 0
        self._fps = fps
        self._buffer = io.BytesIO()
        self._container = av.open(self._buffer, "w", format="mp4")
        options = {"g": str(KEYFRAME_INTERVAL), "crf": str(CRF)}
        extra = {"preset": str(AV1_PRESET)} if has_av1() else {"bf": "0"}
        codec = _AV1 if has_av1() else _H264
        stream: Any = self._container.add_stream(codec, rate=fps, options=options | extra)
        stream.height, stream.width, stream.pix_fmt = height, width, PIXEL_FORMAT
        self._stream = stream
        with inherited_scheduling(), self._faults():
            stream.codec_context.open()

    def add(self, pixels: np.ndarray) -> None:
        """Append an image (height, width, 3) of uint8."""
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
        self._encode(frame)
        self.num_frames += 1

    def finish_file(self) -> bytes:
        """An mp4 file of all frames that were added."""
        self._flush()
        return self._buffer.getvalue()

    def finish(self) -> Clip:
        """All frames that were added."""
        self._flush()
        self._buffer.seek(0)
        clip = EncodedVideo(self._buffer, self._fps).cut(0, self.num_frames)
        assert clip is not None, "the clip has no keyframe at its start, or skips a frame"
        return clip

    def abandon(self) -> None:
        """Discard the clip; an encoder that is not flushed prints warnings."""
        with suppress(DatasetError):
            self._encode(None)

    def _flush(self) -> None:
        self._encode(None)
        self._container.close()

    def _encode(self, frame: av.VideoFrame | None) -> None:
        with self._faults():
            for packet in self._stream.encode(frame):
                self._container.mux(packet)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except av.FFmpegError as error:
            size = f"{self._stream.width}x{self._stream.height}"
            raise DatasetError(f"cannot encode a video of {size}: {error.strerror}") from None


class ClipFile:
    """An mp4 file that clips are appended to; its packets are timed by exact frame counts."""

    def __init__(self, path: Path, fps: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.num_frames = 0
        self.num_bytes = 0
        self._container = av.open(str(path), "w", format="mp4")
        self._frame_time = Fraction(1, fps)
        self._stream: Any = None
        self._encoding: tuple[Any, ...] = ()
        self._delay = 0

    def takes(self, clip: Clip) -> bool:
        """Whether a clip can follow those already there; else it needs a file of its own."""
        if self._stream is None:
            return True
        is_alike = clip.encoding == self._encoding and clip.delay <= self._delay
        return is_alike and clip.is_decodable_alone

    def append(self, clip: Clip) -> None:
        """Copy a clip's packets behind those already there."""
        if self._stream is None:
            self._encoding, self._delay = clip.encoding, clip.delay
            self._stream = self._container.add_stream_from_template(clip.stream, opaque=True)
            self._stream.time_base = self._frame_time
        self.num_bytes += clip.num_bytes
        for place, (packet, number) in enumerate(zip(clip.packets, clip.numbers, strict=True)):
            packet.stream = self._stream
            packet.time_base = self._frame_time
            packet.duration = 1
            packet.pts = self.num_frames + number
            packet.dts = self.num_frames + place - self._delay
            self._container.mux(packet)
        self.num_frames += clip.num_frames

    def close(self) -> None:
        """Write the file's index; without it the file cannot be read."""
        self._container.close()


@contextmanager
def inherited_scheduling() -> Iterator[None]:
    """Keep the caller and the threads that the block starts in the caller's scheduling class."""
    # Run by root, the AV1 library makes itself and its caller real-time, ahead of all programs.
    if not hasattr(os, "sched_getscheduler"):
        yield
        return
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    earlier = _threads()
    try:
        yield
    finally:
        for thread in _threads() - earlier | {threading.get_native_id()}:
            # It may have ended meanwhile.
            with suppress(ProcessLookupError):
                os.sched_setscheduler(thread, policy, priority)


def _threads() -> set[int]:
    return {int(folder.name) for folder in Path("/proc/self/task").iterdir()}


def has_av1() -> bool:
    """Whether PyAV was built with the AV1 encoder LeRobot uses; otherwise clips are H.264."""
    return _AV1 in av.codecs_available


def stream_info(fps: int, height: int, width: int) -> dict[str, Any]:
    """Entries of `meta/info.json` about a camera's videos."""
    return {
        "video.height": height,
        "video.width": width,
        "video.codec": "av1" if has_av1() else "h264",
        "video.pix_fmt": PIXEL_FORMAT,
        "video.fps": fps,
        "video.channels": 3,
        "has_audio": False,
        "video.g": KEYFRAME_INTERVAL,
        "video.crf": CRF,
        "video.preset": AV1_PRESET if has_av1() else None,
        "video.fast_decode": 0,
        "video.video_backend": "pyav",
        "video.extra_options": {},
        "is_depth_map": False,
    }
