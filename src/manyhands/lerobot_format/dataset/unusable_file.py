"""The error for a file that cannot be read, with its cause and the remedy apart."""

from pathlib import Path

from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.fetching import fetch_remedy
from manyhands.lerobot_format.dataset.file_condition import Condition, file_condition
from manyhands.os_errors import reading_remedy, reason_of


class UnusableFile(DatasetError):
    """A file that cannot be read: its path, the cause in words that follow it, and the remedy."""

    def __init__(self, path: Path, cause: str, remedy: str) -> None:
        self.path, self.cause, self.remedy = path, cause, remedy
        super().__init__(f"{path} {cause}. {remedy}")

    def __reduce__(self) -> tuple[type["UnusableFile"], tuple[Path, str, str]]:
        return UnusableFile, (self.path, self.cause, self.remedy)


def check_file(path: Path) -> None:
    """Raise an UnusableFile unless a file can be read, as far as a look at its ends tells."""
    found = file_condition(path)
    if not found.is_good:
        raise UnusableFile(path, found.cause, fetch_remedy(path, found.condition))


def damaged_file(path: Path, error: Exception | str) -> UnusableFile:
    """The error for a truncated or overwritten file."""
    reason = " ".join(str(error).split())
    return UnusableFile(path, f"is damaged: {reason}", fetch_remedy(path, Condition.DAMAGED))


def unreadable_file(path: Path, error: OSError) -> UnusableFile:
    """The error for a file or folder that the system cannot read."""
    remedy = reading_remedy(error, fetch_remedy(path, Condition.UNREADABLE))
    return UnusableFile(path, f"cannot be read: {reason_of(error)}", remedy)
