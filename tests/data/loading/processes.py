"""Loader processes, seen from outside."""

import multiprocessing
import time

import psutil

DEADLINE_S = 60.0
"""A busy machine may take seconds to end a process; one that waits for ever is a fault."""


def loader_processes() -> list[psutil.Process]:
    """Those that this process started and that have not been waited for, by their number."""
    children = {child.name: child.pid for child in multiprocessing.active_children()}
    return [psutil.Process(children[name]) for name in sorted(children) if "loader" in name]


def is_alive(process: psutil.Process) -> bool:
    """Whether a process runs; one that is dead and not buried yet does not."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def are_gone(processes: list[psutil.Process]) -> bool:
    """Whether all end in time."""
    deadline = time.monotonic() + DEADLINE_S
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(is_alive, processes))
