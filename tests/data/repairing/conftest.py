"""Datasets to damage."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def old_root(plain_root: Path, version_2: Any, tmp_path: Path) -> Path:
    """The plain dataset as version 2.1 has it, to be damaged."""
    version_2(plain_root, tmp_path / "old")
    return tmp_path / "old"
