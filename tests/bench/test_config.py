"""Measurements that cannot be made."""

import sys
from pathlib import Path

import pytest

from manyhands_bench.config import BenchLoaderConfig, BenchScalingConfig


def test_sound_values_have_no_fault():
    assert BenchLoaderConfig(against=Path(sys.executable)).faults() == []
    assert BenchScalingConfig(processes=[1, 2], overlap=1.0, link_gbps=0.5).faults() == []


@pytest.mark.parametrize(
    ("change", "named"),
    [({"seconds": 0}, "seconds"), ({"epochs": -1}, "epochs"), ({"against": Path("no")}, "against")],
)
def test_faults_name_their_flag(change, named):
    (fault,) = BenchLoaderConfig(**change).faults()
    assert fault.startswith(f"--{named}=")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("processes", []),
        ("processes", [0, 1]),
        ("processes", [2, 2]),
        ("kind", "guessed"),
        ("steps", 0),
        ("warm_up", 0),
        ("threads", 0),
        ("link_gbps", 0.0),
        ("link_latency_us", -1.0),
        ("overlap", 1.5),
    ],
)
def test_faults_of_scaling_name_their_flag(name, value):
    (fault,) = BenchScalingConfig(**{name: value}).faults()
    assert fault.startswith(f"--{name}=")
