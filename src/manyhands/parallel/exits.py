"""How a process ends whose main thread may hang, and what it reports before that."""

import os
import sys
import traceback

from manyhands.errors import Diverged, UserError


def speak(told: str) -> None:
    """Tell why a run ends."""
    for line in told.splitlines():
        print(f"manyhands: {line}", file=sys.stderr)
    sys.stderr.flush()


def report(error: BaseException, rank: int) -> None:
    """Report the error that ends this process, unless its main thread did."""
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
        # Also if nobody reads the output any more.
        os._exit(code)
