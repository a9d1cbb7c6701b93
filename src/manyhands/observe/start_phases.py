"""What a command does before its first step, on standard error: importing torch takes seconds."""

import sys
import time

STARTED = "MANYHANDS_STARTED"
"""When the command began that starts processes, on the clock that they share."""


class StartPhases:
    """Prints each phase as it begins, with the seconds since the command began."""

    def __init__(self, is_shown: bool = True, started: str | None = None) -> None:
        """`started` is when another process began to start this one."""
        self._is_shown = is_shown
        self._begun = [] if started is None else [("processes", float(started))]

    def begin(self, doing: str, what: str) -> None:
        """Print that a phase begins, such as loading something; the one before it has ended."""
        self._begun.append((what, time.monotonic()))
        if self._is_shown:
            seconds = self._begun[-1][1] - self._begun[0][1]
            print(f"{seconds:6.1f} s  {doing} {what}", file=sys.stderr, flush=True)

    def end(self) -> list[str]:
        """End the last phase; return how long each took, as lines to log."""
        if not self._begun:
            return []
        ends = [*(begin for _, begin in self._begun[1:]), time.monotonic()]
        times = [
            f"{what} {end - begin:.1f} s"
            for (what, begin), end in zip(self._begun, ends, strict=True)
        ]
        total = ends[-1] - self._begun[0][1]
        self._begun = []
        return [f"first step after {total:.1f} s: {', '.join(times)}"]
