"""Worlds that several tests look at."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from manyhands.launch.workers import run_workers


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two ranks says of sharded weights; see sharded_world.py."""
    folder = tmp_path_factory.mktemp("two")
    script = Path(__file__).with_name("sharded_world.py")
    assert run_workers(2, [sys.executable, str(script), str(folder)]).code == 0
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]
