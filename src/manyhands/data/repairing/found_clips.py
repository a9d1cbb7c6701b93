"""Video clips of a damaged dataset's episodes, found by metadata, file names or order."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np

from manyhands.data.checking.strict_video import StrictVideo
from manyhands.data.images.encoder import ClipEncoder
from manyhands.data.images.formats import ImageFormat
from manyhands.data.images.packets import Clip, EncodedVideo
from manyhands.data.images.video import FrameFormat, VideoReader, open_video
from manyhands.data.repairing.found_files import FoundFile
from manyhands.data.repairing.found_metadata import Placed
from manyhands.data.statistics import subsampled
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.unusable_file import check_file


@dataclass(frozen=True)
class VideoFacts:
    """Properties of a video file that can be opened."""

    height: int
    width: int
    rate: float  # Frames per second
    num_frames: int
    codec: str

    @property
    def stream_info(self) -> dict[str, Any]:
        """Entries of `meta/info.json` that the file itself shows."""
        sizes = {"video.height": self.height, "video.width": self.width}
        return sizes | {"video.codec": self.codec, "has_audio": False}


def video_facts(path: Path) -> VideoFacts:
    """Read the facts of a video file; raises a DatasetError if it is unusable."""
    check_file(path)
    try:
        with open_video(str(path)) as container:
            stream = container.streams.video[0]
            context, rate = stream.codec_context, stream.average_rate
            num_frames = stream.frames or sum(1 for each in container.demux(stream) if each.size)
            codec = context.codec.canonical_name
            if not rate or not num_frames:
                raise DatasetError(f"{path} has no frames")
            return VideoFacts(context.height, context.width, float(rate), num_frames, codec)
    except (av.FFmpegError, OSError, IndexError) as error:
        raise DatasetError(f"{path} is damaged: {error}") from None


class FoundClips:
    """The videos of one camera; the file cut from last stays open."""

    def __init__(self, files: Sequence[FoundFile], form: ImageFormat) -> None:
        self._files = {(file.chunk, file.number): file for file in files}
        self._form = form
        self._facts: dict[Path, VideoFacts] = {}
        self._used: dict[Path, int] = {}  # Frames given to episodes without metadata
        self._video: EncodedVideo | None = None
        self._path: Path | None = None
        self.num_encoded = 0

    def place(self, number: int, num_frames: int, listed: Placed | None) -> tuple[Path, int]:
        """File and first frame of an episode; raises a DatasetError if there is none."""
        files = list(self._files.values())
        if not files:
            raise DatasetError("there is no video")
        if files[0].is_one_episode:
            own = [file for file in files if file.number == number]
            if not own:
                raise DatasetError(f"there is no video episode_{number:06d}.mp4")
            return self._checked(own[0].path, 0, num_frames)
        if listed is not None:
            chunk, file, start_s = listed
            found = self._files.get((chunk, file))
            if found is None:
                raise DatasetError(f"there is no video chunk-{chunk:03d}/file-{file:03d}.mp4")
            start = round(start_s * self.facts(found.path).rate)
            return self._checked(found.path, start, num_frames)
        return self._next_place(files, num_frames)

    def clip(self, path: Path, first: int, num_frames: int) -> Clip:
        """Frames of a file as they are encoded, or encoded again if they need others."""
        facts = self.facts(path)
        with closing(StrictVideo(path, facts.rate, self._form)) as strict:
            seen = strict.examine(first, first + num_frames)
        if not seen.is_good.all():
            worst = int(first + np.argmin(seen.is_good))
            raise DatasetError(f"{path.name}: frame {worst} is damaged: {seen.reason(worst)}")
        if self._path != path:
            self.close()
            self._path, self._video = path, EncodedVideo(path, facts.rate)
        assert self._video is not None
        return self._video.cut(first, num_frames) or self._encoded(path, first, num_frames)

    def pictures(self, path: Path, numbers: np.ndarray) -> list[np.ndarray]:
        """Decoded frames (height, width, channels) of a file, as small as statistics need."""
        reader = VideoReader(self.facts(path).rate, FrameFormat(self._form.video_pixels))
        frames = reader.frames(path, numbers)
        images = (self._form.delivered(each, is_video=True).transpose(1, 2, 0) for each in frames)
        return [subsampled(image).copy() for image in images]

    def facts(self, path: Path) -> VideoFacts:
        """The facts of a file, read once."""
        if path not in self._facts:
            self._facts[path] = video_facts(path)
        return self._facts[path]

    def close(self) -> None:
        """Close the file that is open."""
        if self._video is not None:
            self._video.close()
        self._path, self._video = None, None

    def _encoded(self, path: Path, first: int, num_frames: int) -> Clip:
        facts = self.facts(path)
        self.num_encoded += 1
        encoder = ClipEncoder(max(1, round(facts.rate)), facts.height, facts.width)
        reader = VideoReader(facts.rate)
        for frame in reader.frames(path, np.arange(first, first + num_frames)):
            encoder.add(frame)
        return encoder.finish()

    def _checked(self, path: Path, first: int, num_frames: int) -> tuple[Path, int]:
        available = self.facts(path).num_frames - first
        if available < num_frames:
            raise DatasetError(
                f"{path.name} has {max(available, 0)} of the {num_frames} frames of its rows"
            )
        return path, first

    def _next_place(self, files: Sequence[FoundFile], num_frames: int) -> tuple[Path, int]:
        """The frames that follow those of the episode before; a file holds complete episodes."""
        for file in files:
            first = self._used.get(file.path, 0)
            if self.facts(file.path).num_frames - first >= num_frames:
                self._used[file.path] = first + num_frames
                return file.path, first
            self._used[file.path] = self.facts(file.path).num_frames
        raise DatasetError("its videos have no frames left")


def first_facts(videos: Mapping[str, Sequence[FoundFile]]) -> dict[str, VideoFacts]:
    """The facts of the first usable video of each camera; raises the error if there is none."""
    return {key: _first_usable(files) for key, files in videos.items()}


def _first_usable(files: Sequence[FoundFile]) -> VideoFacts:
    faults: list[DatasetError] = []
    for file in files:
        try:
            return video_facts(file.path)
        except DatasetError as error:
            faults.append(error)
    raise faults[0]
