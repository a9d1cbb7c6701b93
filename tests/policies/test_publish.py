"""Policies on their way to the Hub, which here is a server on this machine."""

import inspect
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from huggingface_hub import constants

from manyhands.config.policies.act import ActConfig
from manyhands.config.train import TrainConfig
from manyhands.errors import UserError
from manyhands.launch.workers import run_workers
from manyhands.policies.load import load_policy
from manyhands.policies.publish import check_hub_access, login_fault, publish_checkpoint

POLICY = ActConfig(push_to_hub=True, repo_id="me/mine")
FILES = {"config.json": b"{}", "model.safetensors": b"weights" * 100, "train_config.json": b"{}"}


@pytest.fixture
def here(hub, monkeypatch, tmp_path):
    """The Hub, with this process logged in to it."""
    hub.adopt(monkeypatch, tmp_path / "home")
    return hub


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint that holds something to upload."""
    folder = tmp_path / "000002" / "pretrained_model"
    folder.mkdir(parents=True)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    write_step(folder.parent, 2)
    return folder.parent


def write_step(checkpoint: Path, step: int) -> None:
    """Say after which step a checkpoint was saved."""
    (checkpoint / "training_state").mkdir(exist_ok=True)
    (checkpoint / "training_state" / "training_step.json").write_text(json.dumps({"step": step}))


def config_with(**changes) -> TrainConfig:
    return TrainConfig(policy=replace(POLICY, **changes), steps=2)


def test_a_checkpoint_is_published_with_its_card_in_one_commit(here, checkpoint):
    config = config_with(private=True, license="mit", tags=["so101"])
    (told,) = publish_checkpoint(checkpoint, config, {}, [{"step": 2, "loss": 0.5}])
    assert told == f"published at {here.url}/me/mine"
    repo = here.repos["me/mine"]
    assert repo.messages == ["act policy after 2 steps"]
    assert repo.private is True
    card = repo.files.pop("README.md").decode()
    assert repo.files == FILES
    assert yaml.safe_load(card.split("---\n")[1])["tags"][-1] == "so101"
    assert "| final loss | 0.5 (step 2) |" in card
    assert (checkpoint / "pretrained_model" / "README.md").read_text() == card


@pytest.mark.parametrize("num_steps", [60, None], ids=["stopped early", "budget in epochs"])
def test_step_and_loss_are_those_of_the_checkpoint(here, checkpoint, num_steps):
    write_step(checkpoint, 20)
    rows = [{"step": step, "loss": step / 10} for step in (10, 20, 30, 60)]
    publish_checkpoint(checkpoint, replace(config_with(), steps=num_steps), {}, rows)
    repo = here.repos["me/mine"]
    card = repo.files["README.md"].decode()
    assert repo.messages == ["act policy after 20 steps"]
    assert "| optimizer steps | 20 |" in card and "| final loss | 2 (step 20) |" in card


def test_publishing_again_adds_a_commit_to_the_repository(here, checkpoint):
    for content in (b"one", b"two"):
        (checkpoint / "pretrained_model" / "model.safetensors").write_bytes(content)
        publish_checkpoint(checkpoint, config_with(), {})
    repo = here.repos["me/mine"]
    assert [commit.get("model.safetensors") for commit in repo.commits] == [None, b"one", b"two"]


def test_an_average_has_a_repository_of_its_own(here, checkpoint):
    (checkpoint / "pretrained_model_ema").mkdir()
    (checkpoint / "pretrained_model_ema" / "config.json").write_bytes(b"{}")
    publish_checkpoint(checkpoint, config_with(), {})
    assert here.repos["me/mine-ema"].files.keys() == {"config.json", "README.md"}
    card = here.repos["me/mine-ema"].files["README.md"].decode()
    assert "exponential moving average" in card
    assert 'load_policy("me/mine-ema")' in card


def test_an_average_that_cannot_be_published_is_only_a_warning(here, checkpoint):
    (checkpoint / "pretrained_model_ema").mkdir()
    here.failures["mine-ema/commit"] = 403
    _, warning = publish_checkpoint(checkpoint, config_with(), {})
    assert warning.startswith("WARNING: ")
    assert "hf upload me/mine-ema" in warning
    assert here.repos["me/mine"].files


@pytest.mark.parametrize(
    ("part", "status"),
    [("repos/create", 403), ("commit", 500), ("commit", 403), ("preupload", 404)],
)
def test_a_failed_upload_tells_that_nothing_is_lost_and_how_to_upload_later(
    here, checkpoint, part, status
):
    here.failures[part] = status
    with pytest.raises(UserError) as caught:
        publish_checkpoint(checkpoint, config_with(private=True), {})
    told = str(caught.value)
    assert f"the policy is saved in {checkpoint / 'pretrained_model'}" in told
    assert str(status) in told
    folder = checkpoint / "pretrained_model"
    assert f"hf upload me/mine {folder} --private" in told
    assert {path.name for path in folder.iterdir()} == {*FILES, "README.md"}


def test_who_may_publish_passes_the_check(here):
    check_hub_access(config_with())
    check_hub_access(config_with(repo_id="lab/mine", license="mit"))
    assert here.repos == {}


@pytest.mark.parametrize(
    ("token", "changes", "words"),
    [
        ("", {}, "not logged in.*hf auth login.*remove --policy.push_to_hub"),
        ("hf_expired", {}, "rejected the token.*hf auth login"),
        ("hf_reader", {}, "is read-only"),
        ("hf_writer", {"repo_id": "you/mine"}, r"can write to me, lab.*--policy\.repo_id"),
        (
            "hf_writer",
            {"license": "my own"},
            r"rejected the model card.*must be one of.*--policy\.license",
        ),
    ],
)
def test_what_would_fail_at_the_end_is_refused_at_the_start(
    here, monkeypatch, token, changes, words
):
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(UserError, match=words):
        check_hub_access(config_with(**changes))


def test_a_private_policy_is_kept_from_a_public_repository_before_and_after_training(
    here, checkpoint
):
    publish_checkpoint(checkpoint, config_with(), {})
    before = len(here.repos["me/mine"].commits)
    with pytest.raises(UserError, match=r"me/mine exists and is public.*--policy\.private=false"):
        check_hub_access(config_with(private=True))
    with pytest.raises(UserError, match=r"saved in .*me/mine exists and is public"):
        publish_checkpoint(checkpoint, config_with(private=True), {})
    assert len(here.repos["me/mine"].commits) == before


def test_a_hub_that_is_asked_too_often_does_not_keep_a_run_from_starting(here):
    here.failures["whoami"] = 429
    check_hub_access(config_with())


def test_without_a_network_publishing_is_refused_at_the_start(here, monkeypatch):
    here.close()
    with pytest.raises(UserError, match=r"cannot be reached: .*remove --policy\.push_to_hub"):
        check_hub_access(config_with())
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"HF_HUB_OFFLINE is set"):
        check_hub_access(config_with())


def test_a_token_of_finer_grain_is_left_for_the_hub_to_judge():
    user = {"name": "me", "auth": {"accessToken": {"role": "fineGrained"}}}
    assert login_fault(user, "you/mine") is None
    assert login_fault({"name": "robot"}, "you/mine") is None


def prediction(name: str) -> list:
    """The actions of a policy for a synthetic observation."""
    policy = load_policy(name, device="cpu")
    sizes = {key: feature.shape for key, feature in policy.config.input_features.items()}
    observation = {key: torch.full((1, *shape), 0.5) for key, shape in sizes.items()}
    return policy.predict_action_chunk(observation).tolist()


TRAINING = "from manyhands.cli.main import train_main; train_main()"
ELSEWHERE = f"""
import json, sys, torch
from manyhands import load_policy
{inspect.getsource(prediction)}
print("ACTIONS", json.dumps(prediction(sys.argv[1])))
"""


@pytest.mark.process
def test_a_trained_policy_is_published_and_another_machine_predicts_the_same(
    hub, command, tmp_path
):
    flags = ("--steps=2", "--policy.push_to_hub=true", "--policy.repo_id=me/tiny", "--seed=5")
    argv = command.argv(tmp_path / "run", *flags)
    printed = command.run([*hub.program(tmp_path / "one", TRAINING), *argv])
    assert f"published at {hub.url}/me/tiny" in printed
    folder = tmp_path / "run" / "checkpoints" / "000002" / "pretrained_model"
    local = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert hub.repos["me/tiny"].files == local
    assert {"config.json", "model.safetensors", "train_config.json", "README.md"} < local.keys()
    assert "| seed | 5 |" in local["README.md"].decode()
    assert "| final loss |" in local["README.md"].decode()

    printed = command.run([*hub.program(tmp_path / "other", ELSEWHERE), "me/tiny"])
    assert json.loads(printed.partition("ACTIONS ")[2]) == prediction(str(tmp_path / "run"))


@pytest.mark.process
def test_a_failed_upload_ends_a_finished_run_with_the_users_code(hub, command, tmp_path, capfd):
    hub.failures["commit"] = 403
    flags = ("--steps=1", "--policy.push_to_hub=true", "--policy.repo_id=me/tiny")
    argv = command.argv(tmp_path / "run", *flags)
    outcome = run_workers(2, [*hub.program(tmp_path / "home", TRAINING), *argv])
    printed = "".join(capfd.readouterr())
    assert outcome.code == 2, printed
    assert "Traceback" not in printed
    assert "hf upload me/tiny" in printed
    assert json.loads((tmp_path / "run" / "run.json").read_text())["ending"] == "finished"
