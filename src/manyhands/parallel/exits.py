"""Exits a process whose main thread may hang, after reporting its error."""

import os
import sys
import traceback

from manyhands.errors import Diverged, UserError


def speak(told: str) -> None:
    """Print why a run ends."""
    for line in told.splitlines():
        print(f"manyhands: {line}", file=sys.stderr)
    sys.stderr.flush()


def report(error: BaseException, rank: int) -> None:
    """Report the error that ends this process, unless the main thread did."""
    if isinstance(error, UserError | Diverged):
        if not error.is_reported:
            speak(f"rank {rank}: {error}")
    # Python sets it before it prints a traceback.
    elif getattr(sys, "last_value", None) is not error:
        speak("".join(traceback.format_exception(error)))


def leave_now(code: int) -> None:
    """End this process whatever its threads do."""
    try:
        sys.stdout.flush()
    finally:
        # Also if the output is closed.
        os._exit(code)
