"""A terminal of some width, for what is printed to it."""

import fcntl
import os
import pty
import re
import struct
import termios

MAX_BYTES = 1 << 16


class Terminal:
    """A terminal whose file programs print to; colors are not shown."""

    def __init__(self, width: int) -> None:
        self._reader, writer = pty.openpty()
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        self.file = os.fdopen(writer, "w")

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        os.close(self._reader)

    def lines(self) -> list[str]:
        """The lines that were printed so far."""
        self.file.flush()
        text = os.read(self._reader, MAX_BYTES).decode()
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).splitlines()
