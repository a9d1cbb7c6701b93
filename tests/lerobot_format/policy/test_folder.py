"""config.json and model.safetensors as LeRobot writes and reads them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.files import write_tensors
from manyhands.lerobot_format.policy.folder import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    load_weights,
    read_config,
    read_weights,
    write_config,
)

FULL = ActConfig(
    input_features={"observation.state": PolicyFeature(FeatureType.STATE, (6,))},
    output_features={"action": PolicyFeature(FeatureType.ACTION, (4,))},
    device="cuda",
    tags=["robot"],
    pretrained_path=Path("outputs/last"),
    temporal_ensemble_coeff=0.01,
    n_action_steps=1,
    replace_final_stride_with_dilation=1,
    pretrained_backbone_weights=None,
)


def write_document(folder, **document):
    (folder / CONFIG_FILE).write_text(json.dumps(document))


@pytest.mark.parametrize(
    "name", ["act_vae", "act_plain_prenorm", "diffusion_ddpm", "diffusion_ddim_sample"]
)
def test_a_config_read_and_written_again_is_the_same_bytes(shared, tmp_path, name):
    folder = shared / "fixtures" / "policies" / name / "pretrained_model"
    write_config(tmp_path, read_config(folder))
    # LeRobot writes its own default of this whole number as false, and what it has read as 0.
    theirs = (folder / CONFIG_FILE).read_text().replace('dilation": false', 'dilation": 0')
    assert (tmp_path / CONFIG_FILE).read_text() == theirs


def test_whole_numbers_that_stand_for_floats_are_written_as_floats(tmp_path):
    write_document(tmp_path, type="act", kl_weight=10, dropout=0)
    write_config(tmp_path, read_config(tmp_path))
    text = (tmp_path / CONFIG_FILE).read_text()
    assert '"kl_weight": 10.0' in text and '"dropout": 0.0' in text
    assert '"chunk_size": 100,' in text


def test_every_value_survives_the_way_to_disk(tmp_path):
    write_config(tmp_path, FULL)
    assert read_config(tmp_path) == FULL


def test_the_written_file_sends_nobody_to_fetch_weights(tmp_path):
    write_config(tmp_path, replace(FULL, pretrained_backbone_weights="ResNet18_Weights.DEFAULT"))
    assert read_config(tmp_path).pretrained_backbone_weights is None


def test_a_wish_to_publish_is_not_taken_over(tmp_path):
    write_document(tmp_path, type="act", push_to_hub=True)
    assert read_config(tmp_path).push_to_hub is False


def test_missing_keys_and_null_features_mean_the_defaults(tmp_path):
    write_document(tmp_path, type="act", input_features=None)
    assert read_config(tmp_path) == ActConfig()


@pytest.mark.parametrize(("raw", "value"), [(True, 1), (False, 0), (1, 1), (0, 0)])
def test_dilation_is_accepted_as_switch_and_as_number(tmp_path, raw, value):
    write_document(tmp_path, type="act", replace_final_stride_with_dilation=raw)
    assert read_config(tmp_path).replace_final_stride_with_dilation == value


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"type": "act", "chunk_sise": 3}, "unknown key chunk_sise; did you mean chunk_size"),
        ({"type": "atc"}, "policy type atc is unknown.*did you mean act"),
        ({"type": ["act"]}, "policy type .* is unknown"),
        ({}, "has no key type"),
        ({"type": "act", "n_heads": 8.0}, "n_heads must be an integer, not 8.0"),
        ({"type": "act", "normalization_mapping": {"STATE": "mean_std"}}, "STATE is 'mean_std'"),
    ],
)
def test_a_faulty_config_is_refused_with_file_and_key(tmp_path, document, words):
    write_document(tmp_path, **document)
    with pytest.raises(CheckpointError, match=rf"config\.json.*{words}"):
        read_config(tmp_path)


def linear_weights(**changes):
    weights = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)} | changes
    return {name: value for name, value in weights.items() if value is not None}


def test_weights_are_copied_into_the_network(tmp_path):
    write_tensors(tmp_path / WEIGHTS_FILE, linear_weights())
    network = nn.Linear(3, 2)
    load_weights(network, tmp_path)
    assert torch.equal(network.weight, torch.ones(2, 3))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bias": None}, "1 missing: bias"),
        ({"scale": torch.ones(1)}, "1 unexpected: scale"),
        ({"weight": torch.ones(3, 3)}, r"weight \(3x3 in the file, 2x3 in the policy\)"),
    ],
)
def test_weights_that_do_not_fit_are_listed_and_change_nothing(tmp_path, changes, words):
    write_tensors(tmp_path / WEIGHTS_FILE, linear_weights(**changes))
    network = nn.Linear(3, 2)
    before = network.weight.clone()
    with pytest.raises(CheckpointError, match=rf"(?s)model\.safetensors does not fit.*{words}"):
        load_weights(network, tmp_path)
    assert torch.equal(network.weight, before)


def test_long_lists_of_faults_are_cut(tmp_path):
    extra = {f"extra.{index}": torch.ones(1) for index in range(20)}
    write_tensors(tmp_path / WEIGHTS_FILE, linear_weights(**extra))
    with pytest.raises(CheckpointError, match=r"20 unexpected: .* and 12 more"):
        load_weights(nn.Linear(3, 2), tmp_path)


def test_names_of_a_compiled_network_are_read_as_plain_ones(tmp_path):
    write_tensors(tmp_path / WEIGHTS_FILE, {"unet._orig_mod.weight": torch.ones(1)})
    assert list(read_weights(tmp_path)) == ["unet.weight"]


def test_pickled_weights_are_refused(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02")
    with pytest.raises(CheckpointError, match="weights must be safetensors"):
        read_weights(tmp_path)


def test_missing_weights_are_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"model\.safetensors is missing"):
        read_weights(tmp_path)


HEADER = b'{"weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x10\x00\x00",
        b"\xff" * 64,
        len(HEADER).to_bytes(8, "little") + HEADER,
        len(HEADER).to_bytes(8, "little") + HEADER + bytes(23),
        len(HEADER).to_bytes(8, "little") + b"\x00" * len(HEADER) + bytes(24),
        (1 << 60).to_bytes(8, "little") + HEADER + bytes(24),
        b"PK\x03\x04" + bytes(60),
    ],
    ids=["empty", "short", "noise", "cut", "cut by one", "no header", "endless header", "zip"],
)
def test_damaged_weights_are_named(tmp_path, content):
    (tmp_path / WEIGHTS_FILE).write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged") as caught:
        read_weights(tmp_path)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe{}", b'{"type": "act"'])
def test_a_damaged_config_is_named(tmp_path, content):
    (tmp_path / CONFIG_FILE).write_bytes(content)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        read_config(tmp_path)


def test_a_policy_that_was_compiled_is_read_like_any_other(tmp_path):
    (tmp_path / "config.json").write_text('{"type": "diffusion", "compile_model": true}')
    assert not read_config(tmp_path).compile_model
    assert not read_config(tmp_path).faults()
