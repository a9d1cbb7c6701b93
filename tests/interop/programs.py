"""Programs of either side, as users start them."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MANYHANDS = Path(sys.executable).with_name("manyhands")
MANYHANDS_TRAIN = MANYHANDS.with_name("manyhands-train")
DEADLINE_S = 600


def run_program(program: Path, flags: Mapping[str, Any], *subcommands: str) -> None:
    """Run a program to its end with flags, offline."""
    named = (f"--{name}={value}" for name, value in flags.items())
    command = [str(program), *subcommands, *named]
    environ = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, env=environ, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
