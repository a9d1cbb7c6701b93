"""Findings of files that are missing, empty or replaced, without reading them."""

from manyhands.data.checking.cameras import CameraFile, ImageFile
from manyhands.data.checking.finding import Check, Finding
from manyhands.data.checking.jobs import CheckedFile
from manyhands.lerobot_format.dataset.file_condition import file_condition


def condition_findings(file: CheckedFile) -> list[Finding]:
    """The fault of a file, for each of its episodes; none if it can be read as far as it seems."""
    # The check of rows has the same file.
    if isinstance(file, ImageFile):
        return []
    found = file_condition(file.part.place)
    if found.is_good:
        return []
    key = file.camera.key if isinstance(file, CameraFile) else None
    return file.part.of_file(Check.FILES, f"{file.part.path} {found.cause}", key)
