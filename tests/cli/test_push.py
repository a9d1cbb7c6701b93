"""`manyhands push` on the command line, with a Hub on this machine."""

import json
import shutil

import pytest

from manyhands.cli.main import run_guarded
from manyhands.cli.push import push_command
from manyhands.manifest import describe_folder, manifest_text, read_manifest


@pytest.fixture
def here(hub, monkeypatch, tmp_path):
    """The Hub, with this process logged in to it."""
    hub.adopt(monkeypatch, tmp_path / "home")
    return hub


@pytest.fixture
def run_dir(tray_run, tmp_path):
    """A run of its own: an upload writes the model card into its checkpoint."""
    return shutil.copytree(tray_run, tmp_path / "run", symlinks=True)


def push(*arguments: object) -> int:
    return run_guarded(push_command, [str(argument) for argument in arguments])


def test_a_run_is_uploaded_with_its_card(here, run_dir, capsys):
    assert push(run_dir, "me/pick", "--private=true", "--license=mit", "--tags=[so101]") == 0
    lines = capsys.readouterr().out.splitlines()
    page = f"published at {here.url}/me/pick"
    assert lines == [page, f"EMA {page}-ema"]
    repo = here.repos["me/pick"]
    assert repo.private is True
    assert {"config.json", "model.safetensors", "train_config.json"} <= {*repo.files}
    card = repo.files["README.md"].decode()
    assert "license: mit" in card and "so101" in card and "| final loss |" in card


def test_a_checkpoint_that_was_copied_out_of_its_run_is_uploaded_too(here, run_dir, tmp_path):
    copied = shutil.copytree(run_dir / "checkpoints" / "last", tmp_path / "mine")
    assert push(copied, "me/pick") == 0
    assert "model.safetensors" in here.repos["me/pick"].files


@pytest.fixture
def private_run(run_dir):
    """A run trained with --policy.private=true."""
    checkpoint = run_dir / "checkpoints" / "last"
    file = checkpoint / "training_state" / "manyhands_config.json"
    config = json.loads(file.read_text())
    config["policy"]["private"] = True
    file.write_text(json.dumps(config))
    facts, _ = read_manifest(checkpoint)
    (checkpoint / "manifest.json").write_text(manifest_text(facts, describe_folder(checkpoint)))
    return run_dir


def test_the_repository_of_a_private_policy_is_private(here, private_run):
    assert push(private_run, "me/pick") == 0
    assert here.repos["me/pick"].private is True
    assert push(private_run, "me/open", "--private=false") == 0
    assert not here.repos["me/open"].private


@pytest.mark.parametrize("public", ["me/pick", "me/pick-ema"])
def test_a_private_policy_is_never_uploaded_to_a_public_repository(here, run_dir, capsys, public):
    assert push(run_dir, public) == 0
    before = {name: len(repo.commits) for name, repo in here.repos.items()}
    assert push(run_dir, "me/pick", "--private=true") == 2
    told = capsys.readouterr().err
    assert f"{public} exists and is public" in told
    assert f"{here.url}/{public}/settings" in told and "--private=false" in told
    assert {name: len(repo.commits) for name, repo in here.repos.items()} == before
    for repo in here.repos.values():
        repo.private = True
    assert push(run_dir, "me/pick", "--private=true") == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "push needs a run and a name"),
        (("RUN", "pick"), "pick is not a name on the Hub"),
        (("RUN", "you/pick"), "can write to me, lab only. Choose a name among them"),
        (("nowhere", "me/pick"), "nowhere: no checkpoint found. Name a run directory"),
    ],
)
def test_mistakes_are_explained(here, run_dir, capsys, arguments, words):
    assert push(*(run_dir if word == "RUN" else word for word in arguments)) == 2
    assert words in capsys.readouterr().err
    assert here.repos == {}


def test_without_a_login_the_way_to_log_in_is_named(here, run_dir, monkeypatch, capsys):
    monkeypatch.setenv("HF_TOKEN", "")
    assert push(run_dir, "me/pick") == 2
    printed = capsys.readouterr().err
    assert "hf auth login" in printed
    assert "push_to_hub" not in printed
