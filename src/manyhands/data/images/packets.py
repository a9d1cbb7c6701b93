"""Video cut and joined as it was encoded: packets are copied, so that no pixel changes."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import av

from manyhands.data.images.video import MAX_DELAY, VideoStream

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


class EncodedVideo(VideoStream):
    """A video file whose frames are cut out by number."""

    def cut(self, first: int, num_frames: int) -> Clip | None:
        """Frames `first` and following; None if they cannot be decoded without others."""
        try:
            packets = list(islice(self._packets_from(first), num_frames))
        except (av.FFmpegError, OSError) as error:
            raise self._damaged(error) from None
        numbers = [self._number(packet.pts) - first for packet in packets]
        if sorted(numbers) != list(range(num_frames)):
            return None
        return Clip(self._stream, packets, numbers)

    def _packets_from(self, first: int) -> Iterator["av.Packet[Any]"]:
        """Packets in the order of decoding, from the keyframe that is shown as frame `first`."""
        # Containers seek by the time of decoding, which may be earlier than the requested time.
        self._seek(first - MAX_DELAY)
        is_found = False
        for packet in self._container.demux(self._stream):
            if packet.pts is None or packet.size == 0:
                continue
            number = self._number(packet.pts)
            is_found = is_found or (number == first and packet.is_keyframe)
            if is_found:
                yield packet
            elif number > first + MAX_DELAY:
                return

    def _number(self, pts: int | None) -> int:
        assert pts is not None
        # Rounded in integers, as fractions would take longer than the copying does.
        ticks, frames = self._ticks_per_frame.as_integer_ratio()
        return (2 * frames * (pts - self._start) + ticks) // (2 * ticks)


def _units(content: bytes, length_size: int) -> Iterator[int]:
    """The first byte of each unit of a packet, in which every unit follows its length."""
    place = 0
    while place + length_size < len(content):
        length = int.from_bytes(content[place : place + length_size], "big")
        yield content[place + length_size]
        place += length_size + length
