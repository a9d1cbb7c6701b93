"""How many GPUs there can be, and which of them compute."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from manyhands.launch.environment import num_set_visible

T = TypeVar("T")

PROBE = ("-c", "import torch; torch.ones(1, device='cuda').add(1).item()")
DEADLINE_S = 120.0
"""How long a GPU may take to answer, the start of a process included."""


def can_be_several() -> bool:
    """Whether a run may find more than one GPU, which torch, slow to import, has to count."""
    num_installed = told_by_driver(lambda nvml: int(nvml.nvmlDeviceGetCount()))
    known = [count for count in (num_set_visible(), num_installed) if count is not None]
    return not known or min(known) > 1


def told_by_driver(ask: Callable[[Any], T]) -> T | None:
    """What NVIDIA's driver answers through its library; None where there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        try:
            return ask(pynvml)
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None


def gpus_that_compute(names: Sequence[str]) -> list[str]:
    """Those of some GPUs, named as in CUDA_VISIBLE_DEVICES, that a fresh process can compute on.

    Each is asked by a process of its own: one that is lost spoils those that use it.
    """
    probes = {name: _probe(name) for name in names}
    deadline = time.monotonic() + DEADLINE_S
    return [name for name, probe in probes.items() if _succeeds(probe, deadline)]


def _probe(name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *PROBE],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": name},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _succeeds(probe: subprocess.Popen[bytes], deadline: float) -> bool:
    try:
        return probe.wait(max(0.0, deadline - time.monotonic())) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        # A process in the hands of a broken driver may not even die: nobody waits for it.
        probe.kill()
