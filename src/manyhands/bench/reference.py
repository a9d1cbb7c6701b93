"""LeRobot's loader on the same data, measured by a Python of another environment."""

import json
import subprocess
from dataclasses import asdict, dataclass
from importlib.resources import as_file, files
from pathlib import Path

from manyhands.errors import UserError

START_S = 300.0
"""How long the other Python may take to import LeRobot and open the dataset."""


@dataclass(frozen=True, kw_only=True)
class ReferenceRequest:
    """What the other loader is to read."""

    repo_id: str
    root: str
    episodes: list[int]
    delta_timestamps: dict[str, list[float]]
    """Windows by the dataset's own names."""
    batch_size: int
    num_workers: int
    seconds: float
    warm_up_s: float


def measure_reference(python: Path, request: ReferenceRequest) -> float:
    """Samples per second of LeRobot's loader."""
    with as_file(files("manyhands.bench") / "reference_loader.py") as script:
        try:
            done = subprocess.run(
                [str(python), str(script)],
                input=json.dumps(asdict(request)),
                capture_output=True,
                text=True,
                timeout=START_S + request.warm_up_s + request.seconds,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UserError(f"--against={python} cannot be measured: {error}") from None
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        reason = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise UserError(f"--against={python}: LeRobot's loader failed: {reason}")
    rate: float = json.loads(lines[-1])["samples_per_s"]
    return rate
