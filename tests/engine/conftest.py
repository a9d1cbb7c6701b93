"""Runs of a toy program on the engine."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

PROGRAM = Path(__file__).with_name("toy_run.py")
DEADLINE_S = 100.0


@dataclass(frozen=True)
class ToyRun:
    """What the ranks of a finished run saw."""

    ranks: list[list[dict[str, Any]]]
    evaluated: list[list[int]]
    folder: Path

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps as the main rank saw them, with the rows of all ranks, sorted."""
        return [
            {**each[0], "rows": sorted(row for rank in each for row in rank["rows"])}
            for each in zip(*self.ranks, strict=True)
        ]

    @property
    def weights(self) -> dict[str, Any]:
        """The weights at the end."""
        return load_file(self.folder / "checkpoints/last/pretrained_model/model.safetensors")


class ToyRuns:
    """Starts the program as a user does."""

    def __init__(self, command: Any) -> None:
        self._command = command

    def __call__(
        self,
        folder: Path,
        *flags: str,
        launcher: Sequence[str] = (sys.executable,),
        stop_at: int = 0,
        code: int = 0,
        changes: Mapping[str, str] | None = None,
    ) -> ToyRun | str:
        """Run the program; return what it printed unless it finished."""
        program = [*launcher, str(PROGRAM), str(folder.with_suffix(".json")), str(stop_at)]
        own = ["--device=cpu", f"--output_dir={folder}"]
        words = [*program, *own, *flags]
        printed = self._command.run(words, code, changes, deadline_s=DEADLINE_S)
        if code != 0:
            return printed
        return ToyRun(**json.loads(folder.with_suffix(".json").read_text()), folder=folder)


@pytest.fixture(scope="session")
def toy(command: Any) -> ToyRuns:
    """Runs the toy program with flags of the engine."""
    return ToyRuns(command)


@pytest.fixture(scope="session")
def alone(toy: ToyRuns, tmp_path_factory: pytest.TempPathFactory) -> ToyRun:
    """The run of a single process."""
    return toy(tmp_path_factory.mktemp("alone") / "run")
