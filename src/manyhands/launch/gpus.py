"""Which GPUs compute, asked of a process for each: one that is lost spoils those that use it."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence

PROBE = ("-c", "import torch; torch.ones(1, device='cuda').add(1).item()")
DEADLINE_S = 120.0
"""How long a GPU may take to answer, the start of a process included."""


def gpus_that_compute(names: Sequence[str]) -> list[str]:
    """Those of some GPUs, named as in CUDA_VISIBLE_DEVICES, that a fresh process can compute on."""
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
