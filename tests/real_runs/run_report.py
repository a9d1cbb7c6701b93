"""Results of real runs as a table for people and as JSON with the machine that they ran on."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

MAX_OUTCOME = 120


def cell(value: float | None, form: str) -> str:
    """A number of a table; a dash where there is none."""
    return "-" if value is None else format(value, form)


def failure(error: Exception) -> str:
    """The outcome of a run that failed, short enough for a table."""
    return f"FAILED: {str(error)[:MAX_OUTCOME]!r}"


def document(results: Sequence[Any]) -> str:
    """The results and the machine as JSON, to attach to a report."""
    cases = [vars(each) for each in results]
    return json.dumps({"machine": machine_facts(), "cases": cases}, indent=2)


def machine_facts() -> dict[str, object]:
    """What a report of a fault has to say of the machine."""
    import torch

    facts: dict[str, object] = {"python": sys.version.split()[0], "torch": torch.__version__}
    facts |= {"cuda": torch.version.cuda, "num_cores": os.cpu_count()}
    if torch.cuda.is_available():
        gpus = range(torch.cuda.device_count())
        facts["gpus"] = [torch.cuda.get_device_name(number) for number in gpus]
        facts["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        facts["driver"] = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv")
        facts["topology"] = output_of("nvidia-smi", "topo", "-m")
    return facts


def output_of(*command: str) -> str | None:
    """What a program prints; None if there is none."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return None
