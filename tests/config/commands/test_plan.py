"""Plans that cannot be made."""

import pytest

from manyhands.config.commands.plan import PlanConfig


def test_sound_values_have_no_fault():
    assert PlanConfig().faults() == [] and PlanConfig().gpu_bytes is None
    plan = PlanConfig(gpus=[1, 16], gpu_memory="80GiB", cameras=2)
    assert plan.faults() == [] and plan.gpu_bytes == 80 * 2**30


@pytest.mark.parametrize(
    ("name", "value"),
    [("gpus", []), ("gpus", [2, 0]), ("gpu_memory", "0"), ("gpu_memory", "much"), ("cameras", -1)],
)
def test_faults_name_their_flag(name, value):
    (fault,) = PlanConfig(**{name: value}).faults()
    assert fault.startswith(f"--{name}=")
