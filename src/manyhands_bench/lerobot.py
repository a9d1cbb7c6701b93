"""Measures LeRobot in another Python environment."""

import json
import subprocess
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from manyhands.errors import UserError


def ask_lerobot(
    python: Path, package: str, name: str, question: Mapping[str, Any], timeout_s: float
) -> dict[str, Any]:
    """Run `reference_NAME.py` of a package with the other Python; return its answer."""
    with as_file(files(package) / f"reference_{name}.py") as script:
        try:
            done = subprocess.run(
                [str(python), str(script)],
                input=json.dumps(question),
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UserError(f"cannot run --against={python}: {error}") from None
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        reason = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise UserError(f"--against={python}: LeRobot's {name} failed: {reason}")
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer
