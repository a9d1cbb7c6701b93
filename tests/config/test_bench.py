"""Measurements that cannot be made."""

import sys
from pathlib import Path

import pytest

from manyhands.config.bench import BenchLoaderConfig


def test_sound_values_have_no_fault():
    assert BenchLoaderConfig(against=Path(sys.executable)).faults() == []


@pytest.mark.parametrize(
    ("change", "named"),
    [({"seconds": 0}, "seconds"), ({"epochs": -1}, "epochs"), ({"against": Path("no")}, "against")],
)
def test_faults_name_their_flag(change, named):
    (fault,) = BenchLoaderConfig(**change).faults()
    assert fault.startswith(f"--{named}=")
