"""Policies from folders, from the Hub, and from folders that hold none."""

import json

import huggingface_hub.constants
import pytest
import torch

from manyhands.errors import CheckpointError, UserError
from manyhands.policies.build import build_policy
from manyhands.policies.load import choose_device, load_policy, load_pretrained


@pytest.fixture
def folder(golden, tmp_path):
    build_policy(golden.act_config(), stats={}).save(tmp_path / "run" / "pretrained_model")
    return tmp_path / "run" / "pretrained_model"


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_checkpoint_folder_stands_for_the_policy_in_it(folder):
    for path in (folder, folder.parent, str(folder)):
        policy = load_policy(path)
        assert not policy.network.training
        assert policy.device == torch.device("cpu")


def test_no_backbone_weights_are_fetched_for_a_saved_policy(golden, tmp_path, monkeypatch):
    build_policy(golden.act_config(cameras=True), stats={}).save(tmp_path)
    edit_config(tmp_path, pretrained_backbone_weights="ResNet18_Weights.IMAGENET1K_V1")

    def fetch(*_args, **_kwargs):
        raise AssertionError("fetched")

    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", fetch)
    assert load_policy(tmp_path).config.pretrained_backbone_weights is None


def test_weights_for_another_configuration_are_refused(folder):
    edit_config(folder, latent_dim=5)
    with pytest.raises(CheckpointError, match=r"(?s)does not fit.*latent.*in the file"):
        load_policy(folder)


def test_a_configuration_that_cannot_work_is_refused_with_its_file(folder):
    edit_config(folder, n_heads=5)
    with pytest.raises(CheckpointError, match=r"config\.json.*must be divisible"):
        load_policy(folder)


def test_a_folder_without_a_policy_is_told(tmp_path):
    with pytest.raises(CheckpointError, match=r"holds no policy.*config\.json"):
        load_policy(tmp_path)


def test_an_unreachable_hub_is_told_with_the_way_out(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(CheckpointError, match=r"cannot be fetched from the Hub.*copy the policy's"):
        load_policy("nobody/nothing-of-this-name")


def test_a_path_that_is_nothing_is_told(tmp_path):
    with pytest.raises(CheckpointError, match="neither a folder nor the name of a Hub"):
        load_policy(tmp_path / "not" / "there")


def test_a_saved_device_counts_only_where_it_exists(folder):
    edit_config(folder, device="cuda:93")
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert load_policy(folder).device.type == expected
    assert choose_device(None, "warp").type == expected
    assert choose_device("cpu", "cuda").type == "cpu"


@pytest.mark.parametrize("device", ["cuda:93", "warp"])
def test_a_device_asked_for_must_exist(folder, device):
    with pytest.raises(UserError, match=f"device {device} is not available"):
        load_policy(folder, device=device)


def test_training_may_start_from_the_weights_of_another_policy(golden, folder):
    config = golden.act_config(pretrained_path=folder.parent)
    policy = build_policy(config, stats={})
    load_pretrained(policy, config)
    saved = load_policy(folder).network.state_dict()
    assert all(
        torch.equal(policy.network.state_dict()[name], value) for name, value in saved.items()
    )


def test_weights_that_will_be_replaced_are_not_fetched(golden, folder):
    weights = "ResNet50_Weights.IMAGENET1K_V1"
    config = golden.act_config(
        cameras=True, pretrained_path=folder, pretrained_backbone_weights=weights
    )
    build_policy(config, stats={})
