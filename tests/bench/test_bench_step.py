"""Timings that cannot be made."""

import sys
from pathlib import Path

import pytest

from manyhands_bench.config import BenchStepConfig


def test_sound_values_have_no_fault():
    assert BenchStepConfig().faults() == []
    bench = BenchStepConfig(
        cameras=0, image_size=(8, 8), compare=["eager", "graph"], against=Path(sys.executable)
    )
    assert bench.faults() == []
    assert bench.named_shapes == ["cameras", "image_size"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cameras", -1),
        ("num_steps", 0),
        ("warm_up", 0),
        ("compare", []),
        ("compare", ["graph", "graph"]),
        ("compare", ["fast"]),
        ("against", Path("no")),
    ],
)
def test_faults_name_their_flag(name, value):
    (fault,) = BenchStepConfig(**{name: value}).faults()
    assert fault.startswith(f"--{name}=")
