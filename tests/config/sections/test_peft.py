"""Adapters as flags ask for them."""

from dataclasses import replace
from pathlib import Path

import pytest

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.config.resolve import read_train_config
from manyhands.config.sections.peft import PeftConfig

BASE = SmolVLAConfig(pretrained_path=Path("base"))
RUN = ["--dataset.root=data", "--policy.type=smolvla", "--policy.pretrained_path=base"]


def test_any_flag_switches_adapters_on_with_lerobots_defaults():
    assert read_train_config(RUN).peft is None
    config = read_train_config([*RUN, "--peft.lora_alpha=32"]).peft
    assert config == PeftConfig(method_type="LORA", r=16, lora_alpha=32)
    assert (config.target_modules, config.full_training_modules, config.init_type) == (
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [("[q_proj, v_proj]", ["q_proj", "v_proj"]), (r".*\.(q|v)_proj", r".*\.(q|v)_proj")],
)
def test_layers_are_named_by_a_list_or_a_pattern(text, value):
    config = read_train_config([*RUN, f"--peft.target_modules={text}"]).peft
    assert config is not None and config.target_modules == value


@pytest.mark.parametrize(
    ("values", "policy", "told"),
    [
        (
            {"method_type": "VERA"},
            BASE,
            "--peft.method_type=VERA is not supported by manyhands; use LORA",
        ),
        ({"r": 0}, BASE, "--peft.r=0 must be at least 1"),
        ({"lora_alpha": 0}, BASE, "--peft.lora_alpha=0 must be at least 1"),
        ({"init_type": "pissa"}, BASE, "--peft.init_type=pissa is not one of gaussian, orthogonal"),
        ({}, replace(BASE, pretrained_path=None), "Set --policy.path=FOLDER"),
        ({}, replace(BASE, use_peft=True), "--policy.path=base already has adapters"),
        ({}, ActConfig(pretrained_path=Path("base")), "Set --peft.target_modules"),
        ({"target_modules": []}, ActConfig(pretrained_path=Path("base")), "of type act have no"),
    ],
)
def test_what_cannot_be_adapted_is_refused_by_name(values, policy, told):
    (fault,) = PeftConfig(**values).faults(policy)
    assert told in fault


def test_what_can_be_adapted_has_no_faults():
    assert not [*PeftConfig().faults(BASE)]
    adapted = PeftConfig(target_modules=["linear1"], init_type="gaussian")
    assert not [*adapted.faults(ActConfig(pretrained_path=Path("base")))]
