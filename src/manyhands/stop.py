"""Stop requests from the terminal, a scheduler, or another rank.

A request interrupts the main thread at once while nothing could be lost. The training loop defers
requests, and checks for them between steps.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from manyhands.errors import Stopped

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
_IMPORTING = "<frozen importlib._bootstrap>"
"""The file name of Python's import system."""
LEAVE_S = 5.0
"""How long the main thread may take to exit after a request."""
RETRY_S = 0.2
"""How often a request is repeated to a main thread that imports."""
INTERRUPTED = 128 + signal.SIGINT
"""The exit code after a second Ctrl-C."""

Answer = Callable[[bool], None]
"""Tells the user what follows a request; the argument is whether it is a second Ctrl-C."""


class StopSignal:
    """Turns signals into stop requests; a second Ctrl-C stops at once."""

    def __init__(self, insists: bool = False, on_delay: Callable[[], None] | None = None) -> None:
        """With `insists` the process ends even if its main thread hangs in a call.

        Only for our own programs: it also ends all else that the process does. `on_delay` tells
        the user that a request is heard, if it takes a moment to obey.
        """
        self.requested = False
        self._is_deferred = False
        self._num_interrupts = 0
        self._insists = insists
        self._before: dict[int, Any] = {}
        self._fd_before = -1
        self._left = threading.Event()
        self._answer: Answer | None = None
        self._num_answered = 0
        self._on_delay = on_delay
        self._is_quitting = self._has_quit = self._has_raised = False

    def __enter__(self) -> "StopSignal":
        # Python allows handlers in the main thread only; elsewhere the handlers of the caller stay.
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
    def is_immediate(self) -> bool:
        """Whether this process exits now because of a request."""
        return self.requested and not self._is_deferred

    def request(self) -> None:
        """Ask this process to stop, from any of its threads."""
        if self.requested:
            return
        if self._before:
            # The main thread may sleep: only a signal interrupts it.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        else:
            self.requested = True

    def defer(self, answer: Answer | None = None) -> None:
        """Only record requests from now on, and answer them."""
        self._is_deferred = True
        self._answer = answer
        # A request before the first step has nothing to save.
        self._num_answered = int(self.requested)

    def raise_if_requested(self) -> None:
        """Obey requests at once from now on; raises if one was deferred."""
        self._is_deferred = False
        if self.requested:
            self._has_raised = True
            raise Stopped

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._num_interrupts += number == signal.SIGINT
        if not self._insists and self._is_deferred:
            # Not here: the signal may have interrupted this thread while it prints.
            threading.Thread(target=self._reply, args=(self._num_interrupts > 1,)).start()
        if self._num_interrupts > 1 or self._is_quitting:
            self._has_quit = True
            raise KeyboardInterrupt
        self.requested = True
        # An interrupted import could abort in a library: obey after the import.
        if not self._is_deferred and not self._has_raised and not _is_importing(frame):
            self._has_raised = True
            raise Stopped

    def _listen(self) -> None:
        """Receive signals while the main thread is in a call that does not return."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        self._fd_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._insist, args=(reader,), name="stop", daemon=True).start()

    def _insist(self, reader: int) -> None:
        num_interrupts = 0
        while heard := os.read(reader, 64):
            if set(heard).isdisjoint(SIGNALS):
                continue
            num_interrupts += heard.count(signal.SIGINT)
            # Who defers requests without an answer handles a second one as well.
            self._is_quitting = num_interrupts > 1 and self._answer is not None
            self._reply(self._is_quitting)
            if self._is_quitting and not self._has_quit:
                # The main thread sees two signals as one if both arrive in one call.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            if self._is_deferred and not self._is_quitting:
                continue  # The training loop handles it.
            if not self._leaves_in_time() and (self._is_quitting or not self._is_deferred):
                os._exit(INTERRUPTED if self._is_quitting else Stopped.exit_code)
        os.close(reader)

    def _leaves_in_time(self) -> bool:
        """Wait until the main thread has left; repeat the request if it came within an import."""
        deadline = time.monotonic() + LEAVE_S
        while not self._left.wait(RETRY_S) and time.monotonic() < deadline:
            if self._on_delay is not None and not self._is_deferred:
                self._on_delay()
                self._on_delay = None
            if not self._has_raised and not self._is_deferred:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        return self._left.is_set()

    def _reply(self, is_second: bool) -> None:
        """Answer the first request, and the second Ctrl-C."""
        if self._answer is not None and self._is_deferred and self._num_answered <= is_second:
            self._num_answered = 1 + is_second
            self._answer(is_second)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a signal interrupted an import."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False
