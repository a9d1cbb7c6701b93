"""Values that the cluster would reject are named by their flag; tests/launch has the rest."""

import pytest

from manyhands.config.launch.skypilot import SkyPilotConfig


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "Set --accelerator=H100"),
        ({"accelerator": "H100:8"}, "is not a kind of GPU"),
        ({"accelerator": "A", "job_name": "a b"}, "--job_name=a b"),
        ({"accelerator": "A", "env": {"TOKEN": ""}}, "--env.TOKEN is empty"),
        ({"accelerator": "A", "mounts": {"data": "s3://b"}}, "absolute path"),
        ({"accelerator": "A", "mounts": {"/data": ""}}, "has no source"),
        ({"accelerator": "A", "mem_gb": 0}, "--mem_gb=0"),
        ({"accelerator": "A", "infra": "\0"}, "--infra"),
    ],
)
def test_what_skypilot_would_reject_is_named(values, told):
    assert told in " ".join(SkyPilotConfig(**values).faults())


def test_what_it_accepts_is_accepted():
    assert not SkyPilotConfig(accelerator="A100-80GB", mounts={"~/data": "."}).faults()
    assert not SkyPilotConfig(gpus_per_node=0, processes_per_node=2).faults()
