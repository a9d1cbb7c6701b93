"""Flags of small commands: what cannot work is told."""

from pathlib import Path

import pytest

from manyhands.config.commands import CacheBuildConfig, CachedDatasetConfig, DemoConfig, PlanConfig

SOURCE = CachedDatasetConfig(root=Path("data"))


@pytest.mark.parametrize(
    "config", [CacheBuildConfig(dataset=SOURCE), DemoConfig(), PlanConfig(gpu_memory="80GiB")]
)
def test_possible_values_have_no_faults(config):
    assert config.faults() == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (CacheBuildConfig(dataset=SOURCE, num_workers=0), "--num_workers=0 must be at least 1"),
        (CacheBuildConfig(), "no dataset"),
        (DemoConfig(seed=-1), "--seed=-1 must be at least 0"),
        (PlanConfig(gpu_memory="much"), "--gpu_memory=much"),
        (PlanConfig(gpus=[0]), "--gpus=[0] must be integers from 1"),
    ],
)
def test_impossible_values_are_told(config, message):
    (fault,) = config.faults()
    assert message in fault
