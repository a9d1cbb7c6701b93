"""Check images stored in data files: decodable, and of the declared shape."""

from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq

from manyhands.data.checking import finding as checks
from manyhands.data.checking.camera import Camera
from manyhands.data.checking.finding import message_of
from manyhands.data.checking.job import Report
from manyhands.data.checking.stretches import FilePart
from manyhands.data.pictures.form import checked, form_of
from manyhands.data.pictures.images import decode_image
from manyhands.data.pictures.stored_bytes import picture_bytes
from manyhands.errors import DatasetError
from manyhands.lerobot_format.tables import read_footer, read_row_group


@dataclass(frozen=True)
class PictureFile:
    """A data file, and one camera whose images it holds."""

    part: FilePart
    camera: Camera

    def report(self) -> Report:
        """Decode what must be; the check of rows reports an unreadable file."""
        try:
            footer = read_footer(self.part.place, [self.camera.key])
        except DatasetError:
            return Report()
        reasons: dict[int, str] = {}
        wanted, end = self._wanted(), 0
        for group in range(footer.num_row_groups):
            first, end = end, end + footer.row_group(group).num_rows
            rows = wanted[(wanted >= first) & (wanted < end)].tolist()
            if rows:
                reasons |= self._faults(footer, group, first, rows)
        return Report([*self.part.of_frames(checks.PICTURES, self.camera.key, reasons)])

    def _wanted(self) -> np.ndarray:
        """The rows to check."""
        rows = [np.arange(stretch.start, stretch.end) for stretch in self.part.stretches]
        return np.concatenate(rows if self.camera.is_full else [each[[0, -1]] for each in rows])

    def _faults(
        self, footer: pq.FileMetaData, group: int, first: int, rows: list[int]
    ) -> dict[int, str]:
        """Why images of a row group cannot be used, by row."""
        try:
            values = read_row_group(self.part.place, footer, group, self.camera.key)
        except DatasetError as error:
            return dict.fromkeys(rows, message_of(error, self.part.root))
        reasons = {row: self._fault(values[row - first].as_py()) for row in rows}
        return {row: reason for row, reason in reasons.items() if reason is not None}

    def _fault(self, value: object) -> str | None:
        encoded, form = picture_bytes(value), form_of(self.camera.feature)
        if encoded is None:
            return "no image"
        try:
            pixels = decode_image(encoded, form.stored_pixels, is_strict=True)
            checked(form.delivered(pixels, is_video=False), form, self.part.path)
        except (DatasetError, ValueError) as error:
            return message_of(error, self.part.root)
        return None
