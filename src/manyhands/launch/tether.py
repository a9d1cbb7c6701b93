"""Becomes a command that the kernel stops if the process that started it is killed.

A program of its own, because a process with threads must not run Python between fork and exec. It
takes 20 ms, and what the kernel was asked outlives the exec.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
STOPPED = 75


def with_parent_death_signal(command: list[str]) -> list[str]:
    """The command line for a child of this process that ends with it, where the system can."""
    if sys.platform != "linux":
        return command
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def end_with(launcher: int) -> None:
    """Ask the kernel to stop this process if the one that watches it is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    # It may have been killed before the kernel was asked.
    if os.getppid() != launcher:
        sys.exit(STOPPED)


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
