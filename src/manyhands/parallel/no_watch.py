"""The no-op watchdog of a run with one process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from manyhands.parallel.channel import OwnChannel


class NoWatch:
    """The watchdog of a single process: does nothing."""

    hang_dir: Path | None = None

    def begin(self, phase: str) -> None:
        """Do nothing."""

    @contextmanager
    def patiently(self, phase: str) -> Iterator[None]:
        """Do nothing."""
        yield

    def wait_for(self, key: str) -> None:
        """Do nothing."""

    def say(self, key: str) -> None:
        """Do nothing."""

    def channel(self, name: str) -> OwnChannel:
        """A channel within this process."""
        return OwnChannel()
