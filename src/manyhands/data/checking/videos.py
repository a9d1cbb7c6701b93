"""Check the videos of a camera: consistent with the metadata, and decodable."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from manyhands.data.checking import finding as checks
from manyhands.data.checking.camera import Camera
from manyhands.data.checking.finding import Finding, message_of
from manyhands.data.checking.job import Report
from manyhands.data.checking.stretches import FilePart, runs_of
from manyhands.data.checking.strict_video import StrictVideo
from manyhands.data.pictures.form import form_of
from manyhands.errors import DatasetError

_RATE_TOLERANCE = 1e-3


@dataclass(frozen=True)
class VideoFile:
    """A video file and the episodes it shows."""

    part: FilePart
    camera: Camera

    def report(self) -> Report:
        """Open it and decode what must be."""
        try:
            with closing(self._opened(is_strict=True)) as video:
                return Report([*self._oddities(video), *self._faults(video)])
        except DatasetError as error:
            message = message_of(error, self.part.root)
            return Report(self.part.of_file(checks.FILES, message, self.camera.key))

    def _opened(self, is_strict: bool) -> StrictVideo:
        camera = self.camera
        return StrictVideo(self.part.place, camera.fps, form_of(camera.feature), is_strict)

    def _oddities(self, video: StrictVideo) -> Iterator[Finding]:
        declared = self.camera.feature.info.get("video.codec")
        if isinstance(declared, str) and declared != video.codec:
            yield self._odd(
                f"the codec is {video.codec}, but meta/info.json declares {declared:.40}"
            )
        rate, fps = video.rate, self.camera.fps
        if rate is not None and abs(rate - fps) > _RATE_TOLERANCE * fps:
            yield self._odd(f"the video has {rate:g} fps, but the dataset has {fps:g} fps")
        elif not video.has_even_spacing:
            yield self._odd("its frames are not evenly spaced in time")

    def _odd(self, message: str) -> Finding:
        return Finding(checks.VIDEOS, "warning", message, None, self.part.path, self.camera.key)

    def _faults(self, video: StrictVideo) -> Iterator[Finding]:
        reasons = self._reasons(video)
        if len(reasons) == self.part.num_frames and self._can_be_shown():
            # An encoder that violates its specification in every frame is not damage.
            yield self._odd("its frames violate the codec specification, but can be decoded")
            return
        told = {number: message_of(reason, self.part.root) for number, reason in reasons.items()}
        yield from self.part.of_frames(checks.VIDEOS, self.camera.key, told)

    def _can_be_shown(self) -> bool:
        with closing(self._opened(is_strict=False)) as video:
            return not self._reasons(video)

    def _reasons(self, video: StrictVideo) -> dict[int, str]:
        """Why frames cannot be used, by their number in the file."""
        runs = runs_of(self.part.stretches)
        first, last = runs[0][0], runs[-1][1] - 1
        ends = [(first, first + 1), (last, last + 1)]
        if not self.camera.is_full and not _examined(video, ends):
            return {}
        return _examined(video, runs)


def _examined(video: StrictVideo, runs: list[tuple[int, int]]) -> dict[int, str]:
    reasons: dict[int, str] = {}
    for first, end in runs:
        seen = video.examine(first, end)
        bad = (number for number in range(first, end) if not seen.is_good[number - first])
        reasons |= {number: seen.reason(number) for number in bad}
    return reasons
