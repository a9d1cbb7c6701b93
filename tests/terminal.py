"""A terminal of some width, and what is printed to it."""

import fcntl
import os
import pty
import struct
import termios
import threading
from contextlib import suppress

HEIGHT = 40
MAX_PIECE = 4096


class Terminal:
    """A terminal: programs print to its file, of any length and at any time."""

    def __init__(self, width: int) -> None:
        reader, writer = pty.openpty()
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, width, 0, 0))
        self.file = os.fdopen(writer, "w")
        self._pieces: list[bytes] = []
        # A terminal holds some kilobytes and hands them out piece by piece.
        self._thread = threading.Thread(target=self._read, args=(reader,), daemon=True)
        self._thread.start()

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self._thread.join()

    @property
    def text(self) -> str:
        """All that was printed, once the terminal is closed."""
        assert self.file.closed, "more may be printed"
        return b"".join(self._pieces).decode()

    def _read(self, reader: int) -> None:
        # Linux reports the end as an error.
        with suppress(OSError), os.fdopen(reader, "rb", buffering=0) as source:
            while piece := source.read(MAX_PIECE):
                self._pieces.append(piece)
