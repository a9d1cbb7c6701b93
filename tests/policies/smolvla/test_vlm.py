"""The vision-language model and the action expert."""

import json
import shutil

import pytest
import torch
from safetensors.torch import save_file

from manyhands.errors import CheckpointError, ConfigError, WeightsUnavailable
from manyhands.policies.smolvla.vlm import (
    build_expert,
    build_vlm,
    image_marks,
    is_self_attention,
    load_vlm,
    mlp_width,
    read_vlm_config,
)


@pytest.fixture
def published(tiny, tiny_vlm, tmp_path):
    """A folder with weights of all layers, and those weights."""
    folder = shutil.copytree(tiny_vlm, tmp_path / "published")
    config = tiny.config(vlm_model_name=str(folder))
    weights = build_vlm(read_vlm_config(config), config).state_dict()
    save_file(weights, folder / "model.safetensors")
    return folder, weights


def test_feed_forward_layers_are_as_wide_as_lerobots():
    assert [mlp_width(width) for width in (720, 36, 24, 480)] == [2048, 256, 256, 1280]


@pytest.mark.parametrize(
    ("mode", "every", "kinds"),
    [
        ("cross_attn", 2, [True, False, True, False]),
        ("cross_attn", 3, [True, False, False, True]),
        ("cross_attn", 1, [True] * 4),
        ("cross_attn", 0, [False] * 4),
        ("cross_attn", -1, [False] * 4),
        ("self_attn", 2, [True] * 4),
    ],
)
def test_layers_are_of_lerobots_kinds(tiny, mode, every, kinds):
    config = tiny.config(attention_mode=mode, self_attn_every_n_layers=every)
    assert [is_self_attention(layer, config) for layer in range(4)] == kinds
    expert = build_expert(read_vlm_config(config), config)
    widths = [layer.self_attn.k_proj.in_features for layer in expert.layers]
    assert widths == [36 if is_self else 16 for is_self in kinds]


def test_the_expert_is_as_wide_as_asked(tiny):
    config = tiny.config(expert_width_multiplier=0.5)
    layer = build_expert(read_vlm_config(config), config).layers[0]
    # Heads are those of the model beside it: 3 of 16 values, one of keys.
    assert layer.self_attn.q_proj.weight.shape == (48, 24)
    assert layer.self_attn.k_proj.weight.shape == (16, 24)
    assert layer.self_attn.o_proj.weight.shape == (24, 48)
    assert layer.mlp.up_proj.weight.shape == (256, 24)


def types_of(module: torch.nn.Module) -> set[torch.dtype]:
    return {each.dtype for each in module.parameters()}


def test_types_without_weights_are_the_text_models_own(tiny, other_vlm):
    config = tiny.config(vlm_model_name=str(other_vlm(torch_dtype="bfloat16")))
    found = read_vlm_config(config)
    vlm, expert = build_vlm(found, config), build_expert(found, config)
    parts = {
        "vision": vlm.model.vision_model,
        "connector": vlm.model.connector,
        "head": vlm.lm_head,
        "text": vlm.model.text_model,
        "self": expert.layers[0],
        "cross": expert.layers[1].self_attn.k_proj,
        "cross query": expert.layers[1].self_attn.q_proj,
    }
    single, half = {torch.float32}, {torch.bfloat16}
    assert {name: types_of(part) for name, part in parts.items()} == {
        "vision": single,
        "connector": single,
        "head": single,
        "text": half,
        "self": half,
        "cross": single,
        "cross query": half,
    }


def test_types_with_weights_are_all_bf16_but_those_between_the_two(tiny):
    config = tiny.config(load_vlm_weights=True)
    found = read_vlm_config(config)
    assert types_of(build_vlm(found, config)) == {torch.bfloat16}
    layer = build_expert(found, config).layers[1].self_attn
    assert layer.k_proj.weight.dtype is layer.v_proj.weight.dtype is torch.float32
    assert layer.q_proj.weight.dtype is torch.bfloat16


def test_only_kept_layers_are_there(tiny):
    config = tiny.config(num_vlm_layers=3)
    found = read_vlm_config(config)
    vlm = build_vlm(found, config)
    assert len(vlm.model.text_model.layers) == len(build_expert(found, config).layers) == 3
    assert len(vlm.model.vision_model.encoder.layers) == 2


def test_more_layers_than_there_are_cannot_be_kept(tiny):
    with pytest.raises(ConfigError, match=r"--policy\.num_vlm_layers=9 exceeds the 4"):
        read_vlm_config(tiny.config(num_vlm_layers=9))


def test_models_of_another_family_are_refused(tiny, tiny_vlm, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(ConfigError, match=r"has model type llama; SmolVLA needs"):
        read_vlm_config(tiny.config(vlm_model_name=str(tmp_path)))


def test_published_weights_of_the_kept_layers_are_loaded(tiny, published):
    folder, weights = published
    config = tiny.config(vlm_model_name=str(folder), num_vlm_layers=2, load_vlm_weights=True)
    vlm = build_vlm(read_vlm_config(config), config)
    load_vlm(vlm, config)
    for name, value in vlm.state_dict().items():
        assert torch.equal(value, weights[name].bfloat16())


def test_weights_in_several_files_are_those_of_one(tiny, published):
    folder, weights = published
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, chosen in parts.items():
        save_file({name: weights[name] for name in chosen}, folder / file)
    index = {name: file for file, chosen in parts.items() for name in chosen}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    config = tiny.config(vlm_model_name=str(folder))
    vlm = build_vlm(read_vlm_config(config), config)
    load_vlm(vlm, config)
    assert all(torch.equal(value, weights[name]) for name, value in vlm.state_dict().items())


def test_a_folder_without_weights_is_told(tiny, tiny_vlm):
    config = tiny.config()
    vlm = build_vlm(read_vlm_config(config), config)
    told = r"lacks weights model\.safetensors\. Add them, or .* --policy\.vlm_model_name"
    with pytest.raises(WeightsUnavailable, match=told):
        load_vlm(vlm, config)


def test_weights_that_do_not_fit_are_listed(tiny, published):
    folder, weights = published
    del weights["lm_head.weight"]
    save_file(weights, folder / "model.safetensors")
    config = tiny.config(vlm_model_name=str(folder))
    vlm = build_vlm(read_vlm_config(config), config)
    with pytest.raises(CheckpointError, match=r"1 missing: lm_head\.weight"):
        load_vlm(vlm, config)


def test_marks_of_images_are_the_tokenizers(tiny, tiny_vlm, tmp_path):
    assert image_marks(tiny.config()) == (260, 259)
    shutil.copy(tiny_vlm / "config.json", tmp_path)
    with pytest.raises(WeightsUnavailable, match=r"tokenizer\.json is missing"):
        image_marks(tiny.config(vlm_model_name=str(tmp_path)))
