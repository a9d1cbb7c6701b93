"""What the vision-language model starts from."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from manyhands.errors import ConfigError, WeightsUnavailable
from manyhands.policies.build import build_policy
from manyhands.policies.smolvla.vlm import init_vlm


def test_a_random_model_that_never_learns_is_refused_unless_asked_for(tiny):
    vlm = tiny.network().model.vlm_with_expert.vlm
    with pytest.raises(ConfigError, match=r"--policy\.load_vlm_weights=true, or .*random_vlm=true"):
        init_vlm(vlm, tiny.config(random_vlm=False))
    with pytest.raises(ConfigError, match="random weights"):
        init_vlm(vlm, tiny.config(random_vlm=False, train_expert_only=False))
    init_vlm(vlm, tiny.config())


def test_a_random_model_that_learns_is_fine(tiny):
    learns = {"train_expert_only": False, "freeze_vision_encoder": False}
    network = tiny.network(**learns)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    init_vlm(network.model.vlm_with_expert.vlm, tiny.config(random_vlm=False, **learns))
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_weights_are_not_looked_for_where_a_whole_policy_comes_next(tiny):
    asked = tiny.config(random_vlm=False, load_vlm_weights=True)
    vlm = tiny.network().model.vlm_with_expert.vlm
    with pytest.raises(WeightsUnavailable, match=r"lacks weights model\.safetensors"):
        init_vlm(vlm, asked)
    init_vlm(vlm, replace(asked, pretrained_path=Path("base")))


def test_published_weights_are_in_the_policy(tiny, tiny_vlm, tmp_path):
    folder = shutil.copytree(tiny_vlm, tmp_path / "published")
    weights = tiny.network().model.vlm_with_expert.vlm.state_dict()
    save_file(weights, folder / "model.safetensors")
    config = tiny.config(vlm_model_name=str(folder), load_vlm_weights=True, random_vlm=False)
    network = build_policy(config, {}).network
    found = network.model.vlm_with_expert.vlm.state_dict()
    assert all(torch.equal(found[name], value.bfloat16()) for name, value in weights.items())
