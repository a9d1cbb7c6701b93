"""Check the videos and embedded images of cameras."""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow.parquet as pq

from manyhands.data.checking.coverage import Coverage, Frames
from manyhands.data.checking.file_ranges import EpisodeFile, covered_ranges
from manyhands.data.checking.finding import Check, Finding, error_message
from manyhands.data.checking.jobs import Report
from manyhands.data.checking.strict_video import StrictVideo
from manyhands.data.images.codecs import codec_name
from manyhands.data.images.embedded import image_bytes
from manyhands.data.images.formats import checked, image_format
from manyhands.data.images.image_files import decode_image
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.info import Feature
from manyhands.lerobot_format.dataset.tables import read_footer, read_row_group

_FRAME_S = 1e-4
_PIXEL_S = 1e-8
_FEW = 64  # Frames that are decoded to see the first and the last one


@dataclass(frozen=True)
class Camera:
    """A camera to check."""

    key: str
    feature: Feature
    fps: float
    is_full: bool  # Check every image, not only the first and last

    def cost_s(self, num_frames: int) -> float:
        """Estimated time to check images."""
        num_decoded = num_frames if self.is_full else min(num_frames, _FEW)
        return num_decoded * (_FRAME_S + _PIXEL_S * math.prod(self.feature.shape[:2]))


_FILE_S = 5e-3


@dataclass(frozen=True)
class CameraFile(ABC):
    """A video, or a data file with images in it."""

    part: EpisodeFile
    camera: Camera
    check: ClassVar[Check]

    @property
    def num_frames(self) -> int:
        """Images of chosen episodes."""
        return self.part.num_frames

    @property
    def cost_s(self) -> float:
        """Estimated time to check it."""
        return _FILE_S + self.camera.cost_s(self.num_frames)

    def split(self, cost_s: float) -> "Sequence[CameraFile]":
        """Some episodes at a time."""
        num_frames = self.num_frames * cost_s / self.cost_s
        return [replace(self, part=part) for part in self.part.divided(num_frames)]

    def lost(self, reason: str) -> Report:
        """No episode can be used."""
        return self._unread(self.check, reason)

    def _unread(self, check: Check, reason: str) -> Report:
        key = self.camera.key
        return Report(self.part.of_file(check, reason, key), coverage=self.part.unseen(key))

    def _seen(self, examined: Collection[int], bad: Collection[int]) -> Coverage:
        """Coverage of images that were examined, given by their number in the file."""
        wanted, good = (
            np.array(sorted(each), np.int64) for each in (examined, {*examined} - {*bad})
        )
        frames = {}
        for stretch in self.part.stretches:
            inside = (
                np.searchsorted(each, (stretch.start, stretch.end)) for each in (good, wanted)
            )
            frames[stretch.episode] = Frames(*(int(end - first) for first, end in inside))
        return {self.camera.key: frames}

    @abstractmethod
    def report(self) -> Report:
        """Open it and decode what must be."""


class ImageFile(CameraFile):
    """A data file, and one camera whose images it holds."""

    check = Check.IMAGES

    def report(self) -> Report:
        """Decode what must be; the check of rows reports an unreadable file."""
        try:
            footer = read_footer(self.part.place, [self.camera.key])
        except DatasetError:
            return Report(coverage=self.part.unseen(self.camera.key))
        reasons: dict[int, str] = {}
        rows_of = [np.arange(stretch.start, stretch.end) for stretch in self.part.stretches]
        is_full = self.camera.is_full
        wanted = np.concatenate(rows_of if is_full else [each[[0, -1]] for each in rows_of])
        end = 0
        for group in range(footer.num_row_groups):
            first, end = end, end + footer.row_group(group).num_rows
            rows = wanted[(wanted >= first) & (wanted < end)].tolist()
            if rows:
                reasons |= self._faults(footer, group, first, rows)
        findings = [*self.part.of_frames(Check.IMAGES, self.camera.key, reasons)]
        return Report(findings, coverage=self._seen({*wanted.tolist()}, reasons))

    def _faults(
        self, footer: pq.FileMetaData, group: int, first: int, rows: list[int]
    ) -> dict[int, str]:
        """Why images of a row group cannot be used, by row."""
        try:
            values = read_row_group(self.part.place, footer, group, self.camera.key)
        except DatasetError as error:
            return dict.fromkeys(rows, error_message(error, self.part.root))
        reasons = {row: self._fault(values[row - first].as_py()) for row in rows}
        return {row: reason for row, reason in reasons.items() if reason is not None}

    def _fault(self, value: object) -> str | None:
        encoded, form = image_bytes(value), image_format(self.camera.feature)
        if encoded is None:
            return "no image"
        try:
            pixels = decode_image(encoded, form.stored_pixels, is_strict=True)
            checked(form.delivered(pixels, is_video=False), form, self.part.path)
        except (DatasetError, ValueError) as error:
            return error_message(error, self.part.root)
        return None


_RATE_TOLERANCE = 1e-3


class VideoFile(CameraFile):
    """A video file and the episodes it shows."""

    check = Check.VIDEOS

    def report(self) -> Report:
        """Open it and decode what must be."""
        try:
            with closing(self._opened(is_strict=True)) as video:
                return self._examined(video)
        except DatasetError as error:
            return self._unread(Check.FILES, error_message(error, self.part.root))

    def _examined(self, video: StrictVideo) -> Report:
        runs, reasons = self._reasons(video)
        odd = [*self._oddities(video)]
        if len(reasons) == self.part.num_frames and self._can_be_shown():
            # An encoder that violates its specification in every frame is not damage.
            odd.append(self._odd("its frames violate the codec specification, but can be decoded"))
            reasons = {}
        root, key = self.part.root, self.camera.key
        messages = {number: error_message(reason, root) for number, reason in reasons.items()}
        findings = [*odd, *self.part.of_frames(Check.VIDEOS, key, messages)]
        examined = {number for run in runs for number in range(*run)}
        return Report(findings, coverage=self._seen(examined, reasons))

    def _opened(self, is_strict: bool) -> StrictVideo:
        camera = self.camera
        return StrictVideo(self.part.place, camera.fps, image_format(camera.feature), is_strict)

    def _oddities(self, video: StrictVideo) -> Iterator[Finding]:
        declared = self.camera.feature.info.get("video.codec")
        if isinstance(declared, str) and codec_name(declared) != video.codec:
            yield self._odd(
                f"the codec is {video.codec}, but meta/info.json declares {declared:.40}"
            )
        rate, fps = video.rate, self.camera.fps
        if rate is not None and abs(rate - fps) > _RATE_TOLERANCE * fps:
            yield self._odd(f"the video has {rate:g} fps, but the dataset has {fps:g} fps")
        elif not video.has_even_spacing:
            yield self._odd("its frames are not evenly spaced in time")

    def _odd(self, message: str) -> Finding:
        return Finding(Check.VIDEOS, "warning", message, None, self.part.path, self.camera.key)

    def _can_be_shown(self) -> bool:
        with closing(self._opened(is_strict=False)) as lenient:
            return not self._reasons(lenient)[1]

    def _reasons(self, video: StrictVideo) -> tuple[list[tuple[int, int]], dict[int, str]]:
        """Ranges of frames that were examined, and why some cannot be used, by number."""
        runs = covered_ranges(self.part.stretches)
        first, last = runs[0][0], runs[-1][1] - 1
        ends = sorted({(first, first + 1), (last, last + 1)})
        if not self.camera.is_full and not _examined(video, ends):
            return ends, {}
        return runs, _examined(video, runs)


def _examined(video: StrictVideo, runs: list[tuple[int, int]]) -> dict[int, str]:
    reasons: dict[int, str] = {}
    for first, end in runs:
        seen = video.examine(first, end)
        bad = (number for number in range(first, end) if not seen.is_good[number - first])
        reasons |= {number: seen.reason(number) for number in bad}
    return reasons
