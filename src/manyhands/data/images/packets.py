"""Video cut and joined as it was encoded: packets are copied, so that no pixel changes."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import av

from manyhands.data.images.video import MAX_DELAY, open_video
from manyhands.errors import DatasetError

# No file has times beyond this.
_LAST_TICK = 2**62
# The NAL unit types that reset a decoder, and the bits that encode them.
_FRESH_STARTS = {"h264": (0x1F, 0, {5}), "hevc": (0x3F, 1, {16, 17, 18, 19, 20})}
# Position in the stream's header of the size of a unit's length field.
_LENGTH_SIZES = {"h264": 4, "hevc": 21}


@dataclass(frozen=True)
class Clip:
    """Consecutive frames of a video, which can be decoded without any others."""

    stream: Any  # The stream they were cut from
    packets: list["av.Packet[Any]"]  # The frames in the order of decoding; the first is a keyframe
    numbers: list[int]  # Each packet's index in presentation order, from 0

    @property
    def num_frames(self) -> int:
        """Number of frames."""
        return len(self.packets)

    @property
    def num_bytes(self) -> int:
        """Size of the packets."""
        return sum(packet.size for packet in self.packets)

    @cached_property
    def delay(self) -> int:
        """Frames a decoder must be ahead so that every frame is ready at its presentation time."""
        return max(place - number for place, number in enumerate(self.numbers))

    @cached_property
    def encoding(self) -> tuple[Any, ...]:
        """Properties that clips in one file must share."""
        context = self.stream.codec_context
        return (context.name, context.width, context.height, context.pix_fmt, context.extradata)

    @cached_property
    def is_decodable_alone(self) -> bool:
        """Whether a decoder takes its first frame without regard to frames before it."""
        context = self.stream.codec_context
        codec = context.codec.canonical_name
        if codec not in _FRESH_STARTS:
            return True
        mask, shift, kinds = _FRESH_STARTS[codec]
        header = bytes(context.extradata or b"").ljust(32, b"\xff")
        units = _units(bytes(self.packets[0]), (header[_LENGTH_SIZES[codec]] & 3) + 1)
        return any(unit >> shift & mask in kinds for unit in units)


class EncodedVideo:
    """A video file whose frames are cut out by number."""

    def __init__(self, file: Path | io.BytesIO, fps: float) -> None:
        self._name = str(file) if isinstance(file, Path) else "a clip in memory"
        try:
            opened = str(file) if isinstance(file, Path) else file
            self._container = open_video(opened)
        except FileNotFoundError:
            raise DatasetError(
                f"{self._name} is missing. Copy or download the dataset again"
            ) from None
        except (av.FFmpegError, OSError) as error:
            raise self._damaged(error) from None
        streams = self._container.streams.video
        if not streams or streams[0].codec_context is None:
            raise DatasetError(f"{self._name} contains no video stream of a known codec")
        self._stream = streams[0]
        assert self._stream.time_base is not None
        self._ticks_per_frame = 1 / (Fraction(fps) * self._stream.time_base)
        self._start = self._stream.start_time or 0

    def close(self) -> None:
        """Close the file; clips that were cut from it become invalid."""
        self._container.close()

    def cut(self, first: int, num_frames: int) -> Clip | None:
        """Frames `first` and following; None if they cannot be decoded without others."""
        try:
            packets = list(islice(self._packets_from(first), num_frames))
        except (av.FFmpegError, OSError) as error:
            raise self._damaged(error) from None
        numbers = [self._number(packet) - first for packet in packets]
        if sorted(numbers) != list(range(num_frames)):
            return None
        return Clip(self._stream, packets, numbers)

    def _packets_from(self, first: int) -> Iterator["av.Packet[Any]"]:
        """Packets in the order of decoding, from the keyframe that is shown as frame `first`."""
        # Containers seek by the time of decoding, which may be earlier than the requested time.
        target = self._start + round((first - MAX_DELAY) * self._ticks_per_frame)
        self._container.seek(min(target, _LAST_TICK), stream=self._stream)
        is_found = False
        for packet in self._container.demux(self._stream):
            if packet.pts is None or packet.size == 0:
                continue
            number = self._number(packet)
            is_found = is_found or (number == first and packet.is_keyframe)
            if is_found:
                yield packet
            elif number > first + MAX_DELAY:
                return

    def _number(self, packet: "av.Packet[Any]") -> int:
        assert packet.pts is not None
        # Rounded in integers, as fractions would take longer than the copying does.
        ticks, frames = self._ticks_per_frame.as_integer_ratio()
        return (2 * frames * (packet.pts - self._start) + ticks) // (2 * ticks)

    def _damaged(self, error: av.FFmpegError | OSError) -> DatasetError:
        reason = error.strerror or error
        return DatasetError(
            f"{self._name} is damaged: {reason}. Copy or download the dataset again"
        )


def _units(content: bytes, length_size: int) -> Iterator[int]:
    """The first byte of each unit of a packet, in which every unit follows its length."""
    place = 0
    while place + length_size < len(content):
        length = int.from_bytes(content[place : place + length_size], "big")
        yield content[place + length_size]
        place += length_size + length
