"""A file with images of a camera, and its episodes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from manyhands.data.checking import finding as checks
from manyhands.data.checking.camera import Camera
from manyhands.data.checking.job import Report
from manyhands.data.checking.stored import PictureFile
from manyhands.data.checking.stretches import FilePart
from manyhands.data.checking.videos import VideoFile
from manyhands.lerobot_format import names

_FILE_S = 5e-3


@dataclass(frozen=True)
class CameraFile:
    """A video, or a data file with images in it."""

    part: FilePart
    camera: Camera

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
        check = checks.PICTURES if self._is_data else checks.VIDEOS
        return Report(self.part.of_file(check, reason, self.camera.key))

    def report(self) -> Report:
        """Open it and decode what must be."""
        kind = PictureFile if self._is_data else VideoFile
        return kind(self.part, self.camera).report()

    @property
    def _is_data(self) -> bool:
        return self.camera.feature.dtype == names.IMAGE
