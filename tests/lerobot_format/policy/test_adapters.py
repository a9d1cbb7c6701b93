"""Files of adapters, and the names of tensors in them."""

import json

import pytest
from torch import nn

from manyhands.errors import CheckpointError
from manyhands.lerobot_format.policy.folder import (
    file_name,
    read_settings,
    saved_tensors,
    write_settings,
)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("model.q.lora_A.default.weight", "base_model.model.model.q.lora_A.weight"),
        ("q.lora_embedding_B.default", "base_model.model.q.lora_embedding_B"),
        ("model.head.modules_to_save.default.0.bias", "base_model.model.model.head.0.bias"),
        ("model.q.base_layer.weight", None),
        ("model.head.original_module.weight", None),
        ("model.default.weight", None),
    ],
)
def test_files_have_names_of_their_own_for_adapters_alone(name, told):
    assert file_name(name) == told


def test_a_network_without_adapters_is_saved_whole():
    network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert saved_tensors(network).keys() == network.state_dict().keys()


def test_settings_are_read_as_they_were_written_for_use(tmp_path):
    assert read_settings(tmp_path) is None
    write_settings(tmp_path, {"peft_type": "LORA", "r": 4, "inference_mode": False})
    assert read_settings(tmp_path) == {"peft_type": "LORA", "r": 4, "inference_mode": True}


def test_adapters_of_another_kind_are_refused(tmp_path):
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "VERA"}))
    with pytest.raises(CheckpointError, match="type VERA are not supported, only LORA"):
        read_settings(tmp_path)
