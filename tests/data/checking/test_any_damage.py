"""Whatever happens to a dataset: it is read, or what is wrong is told, and nothing else happens."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("damage.py")
NUM_PROCESSES = 2


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder in memory where there is one: every case writes files that wait for the disk."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None, prefix="damage-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def run(first: int, end: int, scratch: Path, bases: list[Path]) -> list[dict[str, Any]]:
    """Rows of a range of damages; one that ends the process is told and left out."""
    rows: list[dict[str, Any]] = []
    while first < end:
        command = [sys.executable, PROGRAM, scratch, first, end, *bases]
        done = subprocess.run(
            [*map(str, command)], capture_output=True, text=True, check=False, errors="replace"
        )
        told = [json.loads(line) for line in done.stdout.splitlines()]
        rows += [row for row in told if "damage" in row]
        if done.returncode == 0:
            break
        last = told[-1]["seed"] if told else first
        failure = f"the process ended with {done.returncode}:\n{done.stderr[-3000:]}"
        rows.append({"seed": last, "damage": "unknown", "failure": failure})
        first = last + 1
    return rows


@pytest.mark.process
@pytest.mark.timeout(0)
def test_every_damage_is_survived_and_told(
    tiny_roots: list[Path], scratch: Path, request: pytest.FixtureRequest
) -> None:
    """Read or told; the dataset stays as it is; what no finding names can be read."""
    num_damages = request.config.getoption("--num-damages")
    borders = [num_damages * part // NUM_PROCESSES for part in range(NUM_PROCESSES + 1)]
    with ThreadPoolExecutor(NUM_PROCESSES) as pool:
        parts = [
            pool.submit(run, first, end, scratch, tiny_roots) for first, end in pairwise(borders)
        ]
        rows = [row for part in parts for row in part.result()]
    failures = [
        f"{row['seed']}, {row['damage']}: {row['failure']}" for row in rows if "failure" in row
    ]
    assert not failures, f"{len(failures)} of {len(rows)} damages:\n" + "\n".join(failures[:5])
    assert len(rows) == num_damages
    num_usable = sum(row["outcome"] == "usable" for row in rows)
    assert num_usable < num_damages / 2
