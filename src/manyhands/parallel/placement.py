"""Hosts and devices of ranks."""

import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from manyhands.errors import EnvironmentFault


@dataclass(frozen=True)
class Seat:
    """Host and device of one rank."""

    rank: int
    host: str
    device: str
    name: str


def seat_of(rank: int, device: torch.device) -> Seat:
    """Host and device of this rank."""
    if device.type != "cuda":
        return Seat(rank, socket.gethostname(), str(device), "CPU")
    properties = torch.cuda.get_device_properties(device)
    return Seat(rank, socket.gethostname(), f"{device} {properties.uuid}", properties.name)


def refuse_shared_gpus(seats: list[Seat]) -> None:
    """Reject ranks that a launcher put on the same GPU."""
    taken: dict[tuple[str, str], int] = {}
    for seat in seats:
        if not seat.device.startswith("cuda"):
            continue
        other = taken.setdefault((seat.host, seat.device.split()[-1]), seat.rank)
        if other != seat.rank:
            raise EnvironmentFault(
                f"ranks {other} and {seat.rank} use the same GPU {seat.device} of {seat.host}. "
                "The launcher must set LOCAL_RANK for each rank"
            )


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
