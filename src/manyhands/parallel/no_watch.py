"""What takes the place of the watch in a run of one process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from manyhands.parallel.channel import OwnChannel


class NoWatch:
    """The watch of a single process, which has nobody to lose and nobody to wait for."""

    hang_dir: Path | None = None

    def begin(self, phase: str) -> None:
        """Nobody waits."""

    @contextmanager
    def patiently(self, phase: str) -> Iterator[None]:
        """Nobody waits."""
        yield

    def wait_for(self, key: str) -> None:
        """Nobody else says anything."""

    def say(self, key: str) -> None:
        """Nobody listens."""

    def channel(self, name: str) -> OwnChannel:
        """A way to talk to oneself."""
        return OwnChannel()
