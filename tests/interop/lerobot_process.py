"""LeRobot, running in a Python of its own environment."""

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROGRAM = Path(__file__).resolve().parents[2] / "interop" / "lerobot_side.py"


class LeRobot:
    """A process that does with LeRobot what it is asked to."""

    def __init__(self, python: Path) -> None:
        self.python = python
        environ = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        self._process = subprocess.Popen(
            [str(python), str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
        )

    def __call__(self, task: str, **arguments: Any) -> dict[str, Any]:
        """Do a task of `interop/lerobot_side.py` and return its answer; paths become texts."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": task, **arguments}, default=str) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"LeRobot's process ended with code {self._process.wait()} at {task}"
        reply = json.loads(line)
        assert "error" not in reply, f"LeRobot cannot {task}:\n{reply['error']}"
        answer: dict[str, Any] = reply["answer"]
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
