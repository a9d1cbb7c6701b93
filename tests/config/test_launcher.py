"""A launcher's variables are used or refused by name."""

import pytest

from manyhands.config.launcher import Launcher, read_launcher
from manyhands.errors import EnvironmentFault


def test_no_launcher_means_one_process():
    assert read_launcher({}) == Launcher()


def test_torchrun_gives_a_place():
    environ = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    launcher = read_launcher(environ)
    assert launcher == Launcher(3, 4, 1, 2, started_ranks=True)
    assert not launcher.is_main


def test_accelerate_gives_precision_accumulation_and_the_cpu():
    launcher = read_launcher(
        {
            "ACCELERATE_MIXED_PRECISION": "bf16",
            "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4",
            "ACCELERATE_USE_CPU": "True",
            "ACCELERATE_DYNAMO_BACKEND": "NO",
        }
    )
    assert (launcher.mixed_precision, launcher.accumulation, launcher.use_cpu) == ("bf16", 4, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACCELERATE_USE_FSDP", "true"),
        ("ACCELERATE_USE_DEEPSPEED", "true"),
        ("ACCELERATE_USE_MEGATRON_LM", "1"),
        ("ACCELERATE_USE_PARALLELISM_CONFIG", "true"),
        ("ACCELERATE_DYNAMO_BACKEND", "INDUCTOR"),
        ("ACCELERATE_MIXED_PRECISION", "fp8"),
        ("RANK", "first"),
    ],
)
def test_what_cannot_be_given_is_refused_by_name(name, value):
    with pytest.raises(EnvironmentFault, match=name):
        read_launcher({name: value})
