"""Which precision a run computes in."""

from dataclasses import replace

import pytest
import torch

from manyhands.config.launch.launcher import Launcher
from manyhands.config.policies.act import ActConfig
from manyhands.config.train import AcceleratorConfig, TrainConfig
from manyhands.errors import EnvironmentFault
from manyhands.parallel.precision import check_precision, preferred_precision, resolve_precision

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("flag", "launcher", "use_amp", "expected"),
    [
        (None, None, False, "no"),
        (None, "bf16", False, "bf16"),
        ("no", "bf16", True, "no"),
        ("fp16", "bf16", False, "fp16"),
        (None, None, True, "bf16"),
        (None, "no", True, "no"),
        ("bf16", "no", False, "bf16"),
    ],
)
def test_precision_is_the_flags_else_the_launchers_else_the_policys(
    flag, launcher, use_amp, expected
):
    config = TrainConfig(
        policy=ActConfig(use_amp=use_amp), accelerator=AcceleratorConfig(mixed_precision=flag)
    )
    assert resolve_precision(config, Launcher(mixed_precision=launcher)) == expected


@pytest.mark.parametrize(
    ("launcher", "use_amp", "expected"),
    [(None, False, "bf16"), ("no", False, "no"), ("no", True, "no"), ("fp16", True, "fp16")],
)
def test_the_launchers_word_stands_on_a_gpu_as_well(launcher, use_amp, expected):
    config = TrainConfig(policy=ActConfig(use_amp=use_amp))
    assert preferred_precision(config, Launcher(mixed_precision=launcher), True) == expected


def test_a_cpu_and_double_precision_are_not_asked_too_much():
    config = TrainConfig(policy=ActConfig())
    with pytest.raises(EnvironmentFault, match="fp16 needs a GPU"):
        check_precision("fp16", config, CPU)
    with pytest.raises(EnvironmentFault, match="contradicts --dtype=float64"):
        check_precision("bf16", replace(config, dtype="float64"), CPU)
    check_precision("bf16", config, CPU)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_policies_that_are_known_to_learn_in_bf16_do_so_on_gpus_that_have_it():
    gpu, config = torch.device("cuda"), TrainConfig(policy=ActConfig())
    has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
    assert resolve_precision(config, Launcher(), gpu) == ("bf16" if has_bf16 else "no")
    assert resolve_precision(replace(config, dtype="float64"), Launcher(), gpu) == "no"
