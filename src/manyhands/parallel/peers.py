"""Processes of other ranks, as this one sees them."""

import socket
import sys
from pathlib import Path

import psutil


def is_gone(process: psutil.Process) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def machine_identity() -> str:
    """An identity that all processes of one machine and PID namespace have in common."""
    if sys.platform != "linux":
        return socket.gethostname()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
