"""Kills that cannot be made."""

from pathlib import Path

import pytest

from manyhands_bench.config import CASES, BenchResumeConfig


def test_sound_values_have_no_fault():
    assert BenchResumeConfig().faults() == []
    assert BenchResumeConfig(kills=0, saves=0, cases=[*CASES], folder=Path("new")).faults() == []


def test_every_policy_is_killed_in_every_strategy():
    assert {"act-single", "act-ddp", "diffusion-fsdp"} < set(CASES) and len(CASES) == 6


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kills", -1),
        ("saves", -1),
        ("cases", []),
        ("cases", ["act-ddp", "act-dpp"]),
        ("folder", Path(__file__).parent),
    ],
)
def test_faults_name_their_flag(name, value):
    (fault,) = BenchResumeConfig(**{name: value}).faults()
    assert fault.startswith(f"--{name}=")
