"""What cannot work is said before anything starts."""

from dataclasses import replace
from pathlib import Path

import pytest

from manyhands.config.check import config_faults
from manyhands.config.policies.act import ActConfig
from manyhands.config.sections.optim import (
    AdamWConfig,
    ConstantWithWarmupConfig,
    DiffuserSchedulerConfig,
)
from manyhands.config.sections.peft import PeftConfig
from manyhands.config.train import (
    AcceleratorConfig,
    DatasetConfig,
    EmaConfig,
    GradientAccumulationConfig,
    LaunchConfig,
    ScalingConfig,
    TrainConfig,
)

GOOD = TrainConfig(
    dataset=DatasetConfig(root=Path("data")), policy=ActConfig(), optimizer=AdamWConfig()
)
PUSHED = ActConfig(push_to_hub=True, repo_id="me/mine")
PRETRAINED = ActConfig(pretrained_path=Path("base"))
SEEING = ActConfig(backbone_weights=Path("resnet18.pth"))
ZERO_PARTS = AcceleratorConfig(gradient_accumulation=GradientAccumulationConfig(steps=0))
TWO_PARTS = AcceleratorConfig(gradient_accumulation=GradientAccumulationConfig(steps=2))


def test_a_sound_config_has_no_fault():
    assert list(config_faults(GOOD)) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"dataset": DatasetConfig()}, "--dataset.root"),
        ({"dataset": DatasetConfig(root=Path("d"), episodes=[1, 1])}, "--dataset.episodes"),
        ({"dataset": DatasetConfig(root=Path("d"), episodes=[])}, "--dataset.episodes"),
        ({"policy": None}, "--policy.type"),
        ({"policy": ActConfig(push_to_hub=True)}, "--policy.push_to_hub"),
        ({"policy": PUSHED, "save_checkpoint": False}, "--save_checkpoint"),
        ({"policy": SEEING, "resume": "run"}, "--resume"),
        ({"policy": replace(SEEING, pretrained_path=Path("base"))}, "--policy.path=base"),
        ({"policy": ActConfig(use_peft=True)}, "--policy.use_peft"),
        ({"policy": PRETRAINED, "peft": PeftConfig(r=0, target_modules=["a"])}, "--peft.r=0"),
        ({"policy": ActConfig(device="tpu")}, "--policy.device"),
        ({"batch_size": 0}, "--batch_size"),
        ({"steps": 0}, "--steps"),
        ({"epochs": 0.0}, "--epochs=0.0"),
        ({"epochs": float("inf")}, "--epochs=inf"),
        ({"samples": 0}, "--samples=0"),
        ({"steps": 5, "epochs": 2.0}, "--steps=5 and --epochs=2 contradict each other"),
        ({"samples": 5, "epochs": 2.0}, "--epochs=2 and --samples=5 contradict each other"),
        ({"global_batch_size": 0}, "--global_batch_size=0"),
        ({"global_batch_size": 8, "accelerator": TWO_PARTS}, "gradient_accumulation.steps=2"),
        ({"scaling": ScalingConfig(lr="linear")}, "--scaling.base_batch_size"),
        ({"dtype": "float16"}, "--dtype=float16 is not one of float32, float64"),
        ({"dtype": "float64", "accelerator": AcceleratorConfig(mixed_precision="bf16")}, "=bf16"),
        ({"dtype": "float64", "policy": ActConfig(use_amp=True)}, "--policy.use_amp"),
        ({"log_freq": 0}, "--log_freq"),
        ({"on_nonfinite": "ignore"}, "--on_nonfinite=ignore is not one of stop, skip, rollback"),
        ({"on_nonfinite": "rollback", "save_checkpoint": False}, "--save_checkpoint=false"),
        ({"save_freq": -1}, "--save_freq"),
        ({"num_workers": -1}, "--num_workers"),
        ({"prefetch_factor": 0}, "--prefetch_factor"),
        ({"seed": -1}, "--seed"),
        ({"launch": LaunchConfig(num_processes=0)}, "--launch.num_processes"),
        ({"accelerator": ZERO_PARTS}, "--accelerator.gradient_accumulation.steps"),
        ({"accelerator": AcceleratorConfig(mixed_precision="fp8")}, "mixed_precision"),
        ({"checkpoint_format": "pickle"}, "checkpoint_format=pickle"),
        ({"dataloader_multiprocessing_context": "thread"}, "multiprocessing_context"),
        ({"optimizer": AdamWConfig(lr=0.0)}, "--optimizer.lr"),
        ({"scheduler": DiffuserSchedulerConfig(name="sine")}, "--scheduler.name"),
        ({"scheduler": DiffuserSchedulerConfig(name="piecewise_constant")}, "piecewise_constant"),
        (
            {
                "scheduler": DiffuserSchedulerConfig(name="polynomial"),
                "optimizer": AdamWConfig(lr=1e-8),
            },
            "--optimizer.lr",
        ),
        ({"ema": EmaConfig(decay=2.0)}, "--ema.decay"),
        ({"scheduler": ConstantWithWarmupConfig(num_warmup_steps=-1)}, "num_warmup_steps"),
    ],
)
def test_each_fault_is_found_and_names_its_flag(change, named):
    (fault,) = config_faults(replace(GOOD, **change))
    assert named in fault


@pytest.mark.parametrize("name", ["me/mine", "a/b", "Me-1/so101_act.v2", "me/" + "x" * 96])
def test_a_name_on_the_hub_passes(name):
    assert list(config_faults(replace(GOOD, policy=replace(PUSHED, repo_id=name)))) == []


@pytest.mark.parametrize(
    "name",
    ["mine", "me/", "/mine", "me/mi ne", "a/b/c", "me/.x", "me/x-", "a/b--c", "a/b.git", "é/b"],
)
def test_a_name_the_hub_could_not_have_is_refused(name):
    (fault,) = config_faults(replace(GOOD, policy=replace(PUSHED, repo_id=name)))
    assert f"--policy.repo_id={name} is not a name on the Hub" in fault


def test_half_precision_on_the_cpu_is_refused():
    config = replace(
        GOOD,
        policy=ActConfig(device="cpu"),
        accelerator=AcceleratorConfig(mixed_precision="fp16"),
    )
    (fault,) = config_faults(config)
    assert "fp16" in fault


def test_sections_already_spoken_of_are_not_called_missing_again():
    assert list(config_faults(TrainConfig(optimizer=AdamWConfig()), {"dataset", "policy"})) == []
