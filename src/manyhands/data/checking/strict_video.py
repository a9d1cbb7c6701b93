"""A video file read by a decoder that hides no damage.

Every group of frames is decoded on its own, from its keyframe, as it is after a jump in training.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import VideoReformatter

from manyhands.data.images.formats import ImageFormat, checked
from manyhands.data.images.video import MAX_DELAY, FrameFormat, VideoStream
from manyhands.errors import DatasetError

# `strict` holds AV1 to its standard, `err_detect` other formats: what a player would conceal
# becomes an error.
_STRICT = {"err_detect": "crccheck+bitstream+buffer+explode", "strict": "strict"}
_NO_FRAME = "no such frame"

Group = list[Any]  # A keyframe and what follows up to the next, in the order of decoding


class _OutOfOrder(Exception):
    """Frames whose numbers contradict the order in which they are shown."""


@dataclass
class Examination:
    """Which frames of a stretch of video could be decoded, and why others could not."""

    first: int
    is_good: np.ndarray
    reasons: dict[int, str] = field(default_factory=dict)  # By number of the frame

    def accept(self, number: int) -> None:
        """Note a frame that is as it should be."""
        if self.first <= number < self.first + len(self.is_good):
            self.is_good[number - self.first] = True

    def refuse(self, numbers: Iterable[int], reason: str) -> None:
        """Note why frames cannot be used, even if they seemed so."""
        for number in numbers:
            self.reasons[number] = reason
            if self.first <= number < self.first + len(self.is_good):
                self.is_good[number - self.first] = False

    def reason(self, number: int) -> str:
        """Why a frame is not good."""
        return self.reasons.get(number, _NO_FRAME)


class StrictVideo(VideoStream):
    """One open file."""

    def __init__(self, path: Path, fps: float, form: ImageFormat, is_strict: bool = True) -> None:
        super().__init__(path, fps)
        self._path = path
        self._fps = fps
        self._form = form
        self._scaler = VideoReformatter()
        self._latest = -1
        self._looks: dict[tuple[int, int, str], str | None] = {}
        self._decoder = self._stream.codec_context
        # The file's index of frames, empty before release 17 of PyAV; readers seek to keyframes.
        self._index = [*getattr(self._stream, "index_entries", ())]
        self._jump_targets = {entry.pos for entry in self._index if entry.is_keyframe}
        self._decoder.thread_count = 1
        self._decoder.options = _STRICT if is_strict else {}

    @property
    def codec(self) -> str:
        """The name of the stream's format, such as av1 or h264."""
        return str(self._decoder.codec.canonical_name)

    @property
    def rate(self) -> float | None:
        """Frames per second according to the file."""
        rate = self._stream.average_rate
        return None if rate is None else float(rate)

    @property
    def has_even_spacing(self) -> bool:
        """Whether frames are evenly spaced, according to the file's index."""
        steps = np.diff([entry.timestamp for entry in self._index])
        return not steps.size or bool(np.abs(steps - float(self._ticks_per_frame)).max() <= 1)

    def examine(self, first: int, end: int) -> Examination:
        """Decode the frames from `first` up to `end`."""
        seen = self._decoded(first, end, is_apart=True)
        if not seen.is_good.all():
            seen.is_good |= self._depends_on_others(first, end)
        return seen

    def _depends_on_others(self, first: int, end: int) -> np.ndarray:
        """Which frames are good when their group is not decoded apart: an open group cannot be."""
        # Readers start at its keyframe nevertheless: that must not fail, though frames may be
        # missing then, which they find from further back.
        in_line = self._decoded(first, end + MAX_DELAY, is_apart=False).is_good[: end - first]
        with closing(StrictVideo(self._path, self._fps, self._form, is_strict=False)) as lenient:
            refused = lenient._decoded(first, end, is_apart=True).reasons
        return in_line & ~np.isin(np.arange(first, end), [*refused])

    def _decoded(self, first: int, end: int, is_apart: bool) -> Examination:
        seen = Examination(first, np.zeros(end - first, bool))
        try:
            for group in self._groups(first, end):
                self._decode_group(seen, group, is_apart)
            self._drain(seen)
        except (av.FFmpegError, OSError, _OutOfOrder) as error:
            reason = _reason_of(error)
            seen.reasons |= {n: seen.reasons.get(n, reason) for n in range(first, end)}
        return seen

    def _decode_group(self, seen: Examination, group: Group, is_apart: bool) -> None:
        numbers = [self._number(packet.pts) for packet in group]
        try:
            for packet in group:
                self._take(seen, packet)
            if is_apart:
                self._drain(seen)
        except av.FFmpegError as error:
            reason = _reason_of(error)
            seen.reasons |= dict.fromkeys(numbers, reason)
            # A decoder that outputs frames late needs this group for the last of the one before.
            dts = group[0].pts if group[0].dts is None else group[0].dts
            delay = min(numbers[0] - self._number(dts), MAX_DELAY)
            seen.refuse(range(numbers[0] - delay, numbers[0]), reason)
            self._flush()
        except _OutOfOrder as error:
            seen.refuse(numbers, str(error))
            self._flush()

    def _take(self, seen: Examination, packet: Any) -> None:
        for frame in self._decoder.decode(packet):
            if frame.pts is None:
                continue
            number = self._number(frame.pts)
            if number < self._latest:
                raise _OutOfOrder("frames are out of presentation order")
            self._latest = number
            fault = "the frame is corrupt" if frame.is_corrupt else self._look(frame)
            if fault is None:
                seen.accept(number)
            else:
                seen.reasons[number] = fault

    def _drain(self, seen: Examination) -> None:
        self._take(seen, None)
        self._flush()

    def _flush(self) -> None:
        self._decoder.flush_buffers()
        self._latest = -1

    def _look(self, frame: av.VideoFrame) -> str | None:
        """A reader's error for the frame; frames of one size and format are all alike."""
        kind = (frame.width, frame.height, frame.format.name)
        if kind not in self._looks:
            self._looks[kind] = self._frame_fault(frame)
        return self._looks[kind]

    def _frame_fault(self, frame: av.VideoFrame) -> str | None:
        form = self._form
        try:
            pixels = FrameFormat(form.video_pixels).of(frame, self._scaler)
            checked(form.delivered(pixels, is_video=True), form, str(self._path))
        except DatasetError as error:
            return str(error)
        except (av.FFmpegError, ValueError) as error:
            return f"cannot convert its pixels: {error}"
        return None

    def _groups(self, first: int, end: int) -> Iterator[Group]:
        """Groups that may hold frames from `first` up to `end`."""
        # Containers seek by the time of decoding, which may be earlier than that of showing.
        margin = MAX_DELAY if self._decoder.has_b_frames else 0
        self._seek(max(first - margin, 0))
        self._latest = -1
        group: Group = []
        for packet in self._container.demux(self._stream):
            if packet.pts is None or packet.size == 0:
                continue
            is_first = packet.is_keyframe or packet.pos in self._jump_targets
            if is_first and group:
                yield group
                group = []
            if is_first and self._number(packet.pts) >= end:
                return
            group.append(packet)
        if group:
            yield group


def _reason_of(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
