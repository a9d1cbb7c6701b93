"""Policies from folders, from the Hub, and from folders that hold none."""

import json
from dataclasses import replace

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


def test_a_folder_without_a_policy_is_told_with_what_was_looked_for(tmp_path):
    with pytest.raises(
        CheckpointError,
        match=r"contains no policy.*config\.json.*checkpoints/last/pretrained_model",
    ):
        load_policy(tmp_path)


def test_a_run_stands_for_the_policy_of_its_newest_checkpoint(golden, tmp_path):
    for step, latent_dim in ((1, 3), (2, 5)):
        policy = build_policy(golden.act_config(latent_dim=latent_dim), stats={})
        policy.save(tmp_path / "run" / "checkpoints" / f"00000{step}" / "pretrained_model")
    (tmp_path / "run" / "checkpoints" / "last").symlink_to("000002")
    run = tmp_path / "run"
    for path in (run, run / "checkpoints", run / "checkpoints" / "last"):
        assert load_policy(path).config.latent_dim == 5
    assert load_policy(run / "checkpoints" / "000001").config.latent_dim == 3


def test_an_unreachable_hub_is_told_with_the_way_out(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        CheckpointError,
        match=r"cannot be downloaded from the Hub \(HF_HUB_OFFLINE is set.*copy the policy's",
    ):
        load_policy("nobody/nothing-of-this-name")


@pytest.fixture
def published(hub, folder, monkeypatch, tmp_path):
    """The policy in the folder, and later another one, on a Hub as me/mine."""
    hub.adopt(monkeypatch, tmp_path / "home")
    api = huggingface_hub.HfApi()
    api.create_repo("me/mine", private=True)
    api.upload_folder(repo_id="me/mine", folder_path=folder)
    edit_config(folder, n_action_steps=3)
    api.upload_folder(repo_id="me/mine", folder_path=folder)
    return hub


def test_a_policy_is_fetched_from_the_hub_at_its_newest_or_any_revision(published):
    assert load_policy("me/mine").config.n_action_steps == 3
    first = published.repos["me/mine"].sha(1)
    assert load_policy("me/mine", revision=first).config.n_action_steps == 8


def test_what_was_fetched_once_needs_no_network(published, monkeypatch):
    load_policy("me/mine")
    published.failures["/"] = 0
    assert load_policy("me/mine").config.n_action_steps == 3
    published.close()
    assert load_policy("me/mine").config.n_action_steps == 3
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert load_policy("me/mine").config.n_action_steps == 3


def test_what_the_hub_does_not_give_is_told_with_the_reason(published, monkeypatch):
    with pytest.raises(CheckpointError, match=r"me/none is not a local folder.*no such repository"):
        load_policy("me/none")
    with pytest.raises(CheckpointError, match=r"me/mine at revision v9 .*no such revision"):
        load_policy("me/mine", revision="v9")
    published.repos["me/bare"] = type(published.repos["me/mine"])(private=False)
    with pytest.raises(
        CheckpointError, match=r"me/bare on the Hub contains no policy.*config\.json"
    ):
        load_policy("me/bare")
    monkeypatch.setenv("HF_TOKEN", "hf_expired")
    with pytest.raises(CheckpointError, match=r"rejected the token\. Run `hf auth login`"):
        load_policy("me/mine")
    published.failures["/"] = 0
    with pytest.raises(CheckpointError, match=r"cannot be reached: Server disconnected"):
        load_policy("me/none")
    published.close()
    with pytest.raises(CheckpointError, match=r"cannot be reached: .*it is not in .*home/hub"):
        load_policy("me/none")


def test_a_path_that_is_nothing_is_told(tmp_path):
    with pytest.raises(CheckpointError, match="neither a folder nor a Hub"):
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
    config = golden.act_config(cameras=True, pretrained_backbone_weights=weights)
    with pytest.raises(UserError, match=weights):
        build_policy(config, stats={})
    config = replace(config, pretrained_path=folder)
    assert build_policy(config, stats={}).config.pretrained_backbone_weights == weights


def test_adapters_that_name_no_policy_or_are_not_there_are_told(folder):
    edit_config(folder, use_peft=True)
    with pytest.raises(CheckpointError, match=r"adapter_config\.json is missing, but config\.json"):
        load_policy(folder)
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    with pytest.raises(
        CheckpointError, match=r"does not name its base policy \(base_model_name_or_path"
    ):
        load_policy(folder)
    below = {"peft_type": "LORA", "base_model_name_or_path": str(folder)}
    (folder / "adapter_config.json").write_text(json.dumps(below))
    with pytest.raises(CheckpointError, match=r"has adapters itself\. Merge them: manyhands"):
        load_policy(folder)
