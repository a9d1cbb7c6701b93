"""Executes a command that the kernel stops if its parent process is killed.

It is a separate program, because a process with threads must not run Python between fork and exec.
It takes 20 ms, and the parent-death signal survives the exec.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
STOPPED = 75


def with_parent_death_signal(command: list[str]) -> list[str]:
    """The command line for a child process that ends with this process, if supported."""
    if sys.platform != "linux":
        return command
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def end_with(launcher: int) -> None:
    """Set the parent-death signal: the kernel stops this process if its launcher is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    # The launcher may have been killed before the signal was set.
    if os.getppid() != launcher:
        sys.exit(STOPPED)


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
