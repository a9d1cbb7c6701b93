"""Hosts and devices of ranks."""

import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from manyhands.errors import EnvironmentFault


@dataclass(frozen=True)
class RankPlacement:
    """Host and device of one rank."""

    rank: int
    host: str
    device: str
    name: str


def find_placement(rank: int, device: torch.device) -> RankPlacement:
    """Host and device of this rank."""
    if device.type != "cuda":
        name = "CPU" if device.type == "cpu" else "Apple GPU"
        return RankPlacement(rank, socket.gethostname(), str(device), name)
    properties = torch.cuda.get_device_properties(device)
    return RankPlacement(rank, socket.gethostname(), f"{device} {properties.uuid}", properties.name)


def reject_shared_gpus(placements: list[RankPlacement]) -> None:
    """Reject ranks that a launcher put on the same GPU."""
    taken: dict[tuple[str, str], int] = {}
    for placement in placements:
        if not placement.device.startswith("cuda"):
            continue
        other = taken.setdefault((placement.host, placement.device.split()[-1]), placement.rank)
        if other != placement.rank:
            raise EnvironmentFault(
                f"ranks {other} and {placement.rank} use the same GPU {placement.device} of "
                f"{placement.host}. The launcher must set LOCAL_RANK for each rank"
            )


def has_exited(process: psutil.Process) -> bool:
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
