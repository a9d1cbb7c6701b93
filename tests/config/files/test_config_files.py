"""Files that cannot be read are named."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
from huggingface_hub import HfApi

from manyhands.config.files.config_files import (
    find_config_file,
    is_stored_config,
    read_config_file,
    read_policy_file,
    to_json,
    to_yaml,
)
from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.base import OURS, PolicyConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.config.schema.json_values import decode
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError


@pytest.mark.parametrize("content", ["- a\n- b\n", "a: [", "\x00"])
def test_a_file_that_holds_no_named_values_is_named(tmp_path: Path, content: str):
    file = tmp_path / "run.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"run\.yaml"):
        read_config_file(str(file))


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match="nowhere"):
        find_config_file(str(tmp_path / "nowhere"))


def test_a_folder_without_a_policy_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=str(tmp_path)):
        read_policy_file(str(tmp_path))


def test_a_run_stands_for_the_policy_of_its_newest_checkpoint(tmp_path: Path):
    folder = tmp_path / "checkpoints" / "last" / "pretrained_model"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"type": "act", "push_to_hub": true, "chunk_size": 7}')
    for path in (tmp_path, tmp_path / "checkpoints", folder.parent, folder):
        assert read_policy_file(str(path)) == {"type": "act", "chunk_size": 7}


def test_what_only_concerns_this_machine_is_not_stored(tmp_path: Path):
    policy = ActConfig(backbone_weights=Path("/here/resnet18.pth"))
    assert "backbone_weights" not in json.loads(to_json(TrainConfig(policy=policy)))["policy"]
    assert "/here/resnet18.pth" in to_yaml(TrainConfig(policy=policy))


CONFIGS: list[PolicyConfig] = [
    ActConfig(),
    DiffusionConfig(noise_draws_per_sample=2, crop_per_sample=True),
    SmolVLAConfig(gradient_checkpointing=True, exact=True),
]


@pytest.mark.parametrize("policy", CONFIGS, ids=lambda policy: policy.type)
def test_a_stored_config_has_what_lerobot_lacks(tmp_path: Path, policy: PolicyConfig):
    ours = [item.name for item in fields(policy) if OURS in item.metadata]
    assert all(getattr(policy, name) != getattr(type(policy)(), name) for name in ours)
    file = tmp_path / "manyhands_config.json"
    file.write_text(to_json(TrainConfig(policy=policy)))
    stored = read_config_file(str(file))["policy"]
    assert stored.pop("type") == policy.type
    assert decode(type(policy), stored) == policy


def test_a_policy_that_neither_the_disk_nor_the_hub_has_is_named(hub, monkeypatch, tmp_path):
    with pytest.raises(ConfigError, match=r"me/none is not a folder, .*HF_HUB_OFFLINE is set"):
        read_policy_file("me/none", "a-pretrained_revision")
    hub.adopt(monkeypatch, tmp_path)
    with pytest.raises(ConfigError, match=r"me/none is not a folder, .*has no such repository"):
        read_policy_file("me/none", "a-pretrained_revision")
    HfApi().create_repo("me/bare")
    with pytest.raises(ConfigError, match=r"me/bare is not a folder, .*no such file"):
        read_policy_file("me/bare")


def test_a_policy_of_the_hub_is_read_again_where_talking_breaks_off(hub, monkeypatch, tmp_path):
    hub.adopt(monkeypatch, tmp_path)
    api = HfApi()
    api.create_repo("me/mine")
    api.upload_file(
        path_or_fileobj=b'{"type": "act"}', path_in_repo="config.json", repo_id="me/mine"
    )
    assert read_policy_file("me/mine") == {"type": "act"}
    hub.failures["/"] = 0
    assert read_policy_file("me/mine") == {"type": "act"}
    with pytest.raises(ConfigError, match=r"me/other .* cannot be reached: Server disconnected"):
        read_policy_file("me/other")


def test_numbers_survive_a_json_file(tmp_path: Path):
    file = tmp_path / "c.json"
    file.write_text(to_json(TrainConfig(steps=3)))
    assert read_config_file(str(file))["steps"] == 3


def checkpoint_of(run: Path, *own: str) -> Path:
    """A checkpoint with LeRobot's file, and one of the run's own if values are given."""
    checkpoint = run / "checkpoints" / "000010"
    for part in ("pretrained_model", "pretrained_model_ema", "training_state"):
        (checkpoint / part).mkdir(parents=True)
    for part in ("pretrained_model", "pretrained_model_ema"):
        (checkpoint / part / "train_config.json").write_text('{"steps": 1, "resume": true}')
    for text in own:
        (checkpoint / "training_state" / "manyhands_config.json").write_text(text)
    (run / "checkpoints" / "last").symlink_to("000010")
    return checkpoint


PLACES = [
    "",
    "checkpoints",
    "checkpoints/last",
    "checkpoints/000010",
    "checkpoints/last/pretrained_model",
    "checkpoints/last/pretrained_model/train_config.json",
    "checkpoints/last/pretrained_model_ema",
]


@pytest.mark.parametrize("place", PLACES)
def test_every_name_of_a_checkpoint_leads_to_the_whole_config(tmp_path: Path, place: str):
    checkpoint = checkpoint_of(tmp_path, '{"steps": 1, "audit": true, "resume": "elsewhere"}')
    assert read_config_file(str(tmp_path / place)) == {"steps": 1, "audit": True}
    assert is_stored_config(str(tmp_path / place))
    file = find_config_file(str(tmp_path / place))
    assert file.parent.parent.resolve() == checkpoint.resolve()


@pytest.mark.parametrize("place", PLACES)
def test_without_it_lerobots_file_is_read(tmp_path: Path, place: str):
    checkpoint_of(tmp_path)
    assert read_config_file(str(tmp_path / place)) == {"steps": 1}


def test_the_training_state_names_its_config_too(tmp_path: Path):
    checkpoint = checkpoint_of(tmp_path, '{"audit": true}')
    for name in ("training_state", "training_state/manyhands_config.json"):
        assert read_config_file(str(checkpoint / name)) == {"audit": True}


@pytest.mark.parametrize("name", ["train_config.json", ".", "../pretrained_model"])
def test_a_checkpoint_is_found_from_within(tmp_path: Path, monkeypatch, name: str):
    checkpoint = checkpoint_of(tmp_path, '{"audit": true}')
    monkeypatch.chdir(checkpoint / "pretrained_model")
    assert read_config_file(name) == {"audit": True}
    assert find_config_file(name).parent.parent.resolve() == checkpoint.resolve()
