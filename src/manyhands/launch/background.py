"""Starts background processes of a run, at the lowest priority."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from manyhands.config.launch.launcher import DETAILS, LISTENING, TAKEN
from manyhands.launch.environment import RESTARTS, visible_gpus
from manyhands.launch.tether import with_parent_death_signal

LOWEST_PRIORITY = 19
RANK_VARIABLES = (
    "ACCELERATE_",
    "GROUP_",
    "LOCAL_",
    "MASTER_",
    "PMI",
    "RANK",
    "ROLE_",
    "SLURM_",
    "TORCHELASTIC_",
    "WORLD_SIZE",
    LISTENING,
    RESTARTS,
    TAKEN,
    *DETAILS,
)
"""Beginnings of variables by which launchers tell a process that it is one of several ranks."""


def start_in_background(
    command: Sequence[str], log: Path, gpu: int, num_compile_threads: int
) -> subprocess.Popen[bytes]:
    """Start a single-rank process on one visible GPU; it ends with this process."""
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(RANK_VARIABLES)
    }
    environ |= {
        "CUDA_VISIBLE_DEVICES": visible_gpus([gpu])[0],
        "OMP_NUM_THREADS": "1",
        # This process may have a sys.path that a new interpreter does not have.
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TORCHINDUCTOR_COMPILE_THREADS": str(num_compile_threads),
    }
    with log.open("wb") as output:
        return subprocess.Popen(
            with_parent_death_signal([*command]),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,
        )


def lower_priority() -> None:
    """Set the lowest priority for this process; background processes call it first."""
    os.nice(LOWEST_PRIORITY)
