"""Video frames by number.

A frame is requested by its number in the file, never by a time: numbers do not round. The colors
are those of swscale's plain C path, the same on every processor and in every FFmpeg.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import av
import numpy as np
from av.video.reformatter import VideoReformatter

from manyhands.data.images.mp4_boxes import mp4_fault
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.unusable_file import check_file, damaged_file

# Up to release 18 PyAV reads all strings of a file and fails at one that is damaged.
_MAJOR = int(av.__version__.split(".")[0])
_TEXTS: dict[str, Any] = {"metadata_errors": "replace"} if _MAJOR < 19 else {}


def open_video(file: str | IO[bytes]) -> av.container.InputContainer:
    """Open a video file or its bytes; raises FFmpeg's error."""
    container: av.container.InputContainer = av.open(file, "r", **_TEXTS)
    return container


class VideoStream:
    """The video stream of an open file, whose frames have numbers."""

    def __init__(self, file: Path | IO[bytes], fps: float) -> None:
        self._name = file if isinstance(file, Path) else Path("a clip in memory")
        if isinstance(file, Path):
            check_file(file)
        try:
            self._container = open_video(str(file) if isinstance(file, Path) else file)
        except (av.FFmpegError, OSError) as error:
            raise damaged_file(self._name, mp4_fault(self._name) or _reason(error)) from None
        streams = self._container.streams.video
        if not streams or streams[0].codec_context is None:
            fault = mp4_fault(self._name)
            if fault is not None:
                raise damaged_file(self._name, fault)
            raise DatasetError(f"{self._name} contains no video stream of a known codec")
        self._stream = streams[0]
        assert self._stream.time_base is not None
        self._ticks_per_frame = 1 / (Fraction(fps) * self._stream.time_base)
        self._start = self._stream.start_time or 0

    def close(self) -> None:
        """Close the file; packets that were read from it become invalid."""
        self._container.close()

    def _seek(self, number: int) -> None:
        """Go to the last keyframe that is decoded no later than a frame is shown."""
        target = self._start + round(number * self._ticks_per_frame)
        self._container.seek(min(target, _LAST_TICK), stream=self._stream)

    def _number(self, pts: int | None) -> int:
        assert pts is not None
        return round((pts - self._start) / self._ticks_per_frame)

    def _damaged(self, error: av.FFmpegError | OSError, where: str = "") -> DatasetError:
        return damaged_file(self._name, f"{_reason(error)}{where}")


def _reason(error: av.FFmpegError | OSError) -> str:
    return str(error.strerror or error)


# swscale's POINT | ACCURATE_RND | BITEXACT, and AREA instead of POINT where the size changes.
_COLOR_FLAGS = 0x10 | 0x40000 | 0x80000
_RESIZE_FLAGS = 0x20 | 0x40000 | 0x80000
# Loader processes already fill the cores; PyAV takes the number of threads since release 17.
SCALER_THREADS = {"threads": 1} if _MAJOR >= 17 else {}
_MAX_OPEN_FILES = 64
_LAST_TICK = 2**62
MAX_DELAY = 16  # No codec shows a frame more than this many frames later than it is decoded


@dataclass(frozen=True)
class FrameFormat:
    """Output format of frames: FFmpeg's pixel format, and the size."""

    pixels: str = "rgb24"
    size: tuple[int, int] | None = None  # Height and width; None for the recorded size

    def of(self, frame: av.VideoFrame, scaler: VideoReformatter) -> np.ndarray:
        """A decoded frame in this form."""
        height, width = self.size or (frame.height, frame.width)
        is_resized = (height, width) != (frame.height, frame.width)
        scaled = scaler.reformat(
            frame,
            width,
            height,
            self.pixels,
            interpolation=_RESIZE_FLAGS if is_resized else _COLOR_FLAGS,
            **SCALER_THREADS,
        )
        pixels: np.ndarray = scaled.to_ndarray()
        return pixels


class VideoReader:
    """Frames of many files; each process keeps its latest files open."""

    def __init__(self, fps: float, form: FrameFormat | None = None) -> None:
        self._fps = fps
        self._form = form or FrameFormat()
        self._forget()

    def frames(self, path: Path, numbers: np.ndarray) -> Iterator[np.ndarray]:
        """Frames (height, width, channels) of a file; `numbers` must be ascending."""
        video = self._opened(path)
        for number in numbers.tolist():
            yield video.frame(number)

    def _opened(self, path: Path) -> "_OpenVideo":
        # After a fork, parent and child would move the same file position.
        if self._process != os.getpid():
            self._forget()
        video = self._open.pop(path, None) or _OpenVideo(path, self._fps, self._form)
        self._open[path] = video
        if len(self._open) > _MAX_OPEN_FILES:
            self._open.popitem(last=False)[1].close()
        return video

    def _forget(self) -> None:
        self._process = os.getpid()
        self._open: OrderedDict[Path, _OpenVideo] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {"_fps": self._fps, "_form": self._form}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()


class _OpenVideo(VideoStream):
    """One file, the position of its decoder, and the distance of its keyframes."""

    def __init__(self, path: Path, fps: float, form: FrameFormat) -> None:
        super().__init__(path, fps)
        self._form = form
        self._stream.codec_context.thread_count = 1
        self._scaler = VideoReformatter()
        self._decoded: Iterator[tuple[int, av.VideoFrame]] = iter(())
        self._place: int | None = None
        self._keyframe_distance = 1

    def frame(self, number: int) -> np.ndarray:
        try:
            return self._form.of(self._reach(number), self._scaler)
        except (av.FFmpegError, OSError) as error:
            self._place = None
            raise self._damaged(error, f", at frame {number}") from None

    def _reach(self, number: int) -> av.VideoFrame:
        # Decoding forward is cheaper than a seek to a keyframe that saves no frames.
        if self._place is None or not 0 < number - self._place <= self._keyframe_distance:
            self._jump(number)
        frame = self._decode_on(number)
        if frame is None:
            # Seeks go by decoding time: a frame shown before its keyframe is further back.
            self._jump(max(number - MAX_DELAY, 0))
            frame = self._decode_on(number)
        if frame is None:
            raise DatasetError(
                f"{self._name} has no frame {number}: it is damaged, or shorter than "
                "meta/episodes declares. Copy or download the dataset again"
            )
        return frame

    def _decode_on(self, number: int) -> av.VideoFrame | None:
        """The frame of that number, if it comes before any later one."""
        first, self._place = self._place, None
        for place, frame in self._decoded:
            first = place if first is None else first
            if place > number:
                return None
            if place == number:
                self._keyframe_distance = max(self._keyframe_distance, number - first)
                self._place = number
                return frame
        return None

    def _jump(self, number: int) -> None:
        self._seek(number)
        frames = (frame for frame in self._container.decode(self._stream) if frame.pts is not None)
        self._decoded = ((self._number(frame.pts), frame) for frame in frames)
        self._place = None
