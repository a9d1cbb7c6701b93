"""Requests to stop: from the terminal, a scheduler, or another rank.

Where nothing could be lost a request is obeyed at once: it interrupts the main thread. Whoever
trains defers that, and asks between updates.
"""

import os
import signal
import threading
from types import FrameType
from typing import Any

from manyhands.errors import Stopped

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
_IMPORTING = "<frozen importlib._bootstrap>"
"""The file of Python's own functions that import modules."""
LEAVE_S = 5.0
"""How long a main thread may take to leave when it should at once."""


class StopSignal:
    """Takes signals as requests instead of dying of them; a second Ctrl-C stops at once."""

    def __init__(self, insists: bool = False) -> None:
        """With `insists` the process ends even if its main thread waits for others and hears none.

        That is for programs of our own: it takes along whatever else the process does.
        """
        self.requested = False
        self._is_deferred = False
        self._num_interrupts = 0
        self._insists = insists
        self._before: dict[int, Any] = {}
        self._fd_before = -1
        self._left = threading.Event()

    def __enter__(self) -> "StopSignal":
        # Python allows handlers in the main thread only; elsewhere the caller's handling stands.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
            if self._insists:
                self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_deferred = True
        self._left.set()
        if self._before and self._insists:
            os.close(signal.set_wakeup_fd(self._fd_before))
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def is_obeyed(self) -> bool:
        """Whether this process leaves now because of a request."""
        return self.requested and not self._is_deferred

    def request(self) -> None:
        """Ask this process to stop, from any of its threads."""
        if self.requested:
            return
        if self._before:
            # The main thread may sleep: only a signal of its own wakes it.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        else:
            self.requested = True

    def defer(self) -> None:
        """From here on only note requests."""
        self._is_deferred = True

    def obey(self) -> None:
        """From here on obey at once; raises if a request was deferred."""
        self._is_deferred = False
        if self.requested:
            raise Stopped

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._num_interrupts += number == signal.SIGINT
        if self._num_interrupts > 1:
            raise KeyboardInterrupt
        is_first, self.requested = not self.requested, True
        # Libraries that initialize themselves would abort: who imports them obeys afterwards.
        if is_first and not self._is_deferred and not _is_importing(frame):
            raise Stopped

    def _listen(self) -> None:
        """Hear of signals while the main thread is in a call that does not return."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        self._fd_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._insist, args=(reader,), name="stop", daemon=True).start()

    def _insist(self, reader: int) -> None:
        while heard := os.read(reader, 64):
            is_request = not set(heard).isdisjoint(SIGNALS)
            # Deferred meanwhile, it is up to whoever did that.
            if is_request and not self._left.wait(LEAVE_S) and not self._is_deferred:
                os._exit(Stopped.exit_code)
        os.close(reader)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported where a signal came."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False
