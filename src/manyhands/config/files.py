"""Configuration files: YAML and JSON into trees, and a run's config back onto disk."""

import json
from pathlib import Path
from typing import Any

import yaml

from manyhands.config.schema import Tree, encode
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError

TRAIN_CONFIG = "train_config.json"
POLICY_CONFIG = "config.json"
PRETRAINED = "pretrained_model"
CHECKPOINTS = "checkpoints"
LAST_CHECKPOINT = Path(CHECKPOINTS, "last")


def read_config_file(name: str) -> Tree:
    """The tree in a YAML or JSON file, or in the newest checkpoint of a run directory."""
    file = find_config_file(name)
    tree = _read_tree(file, "--config_path")
    # What a stored run itself resumed from is its past, not a wish of whoever reads it.
    return (
        {key: value for key, value in tree.items() if key != "resume"} if _is_stored(file) else tree
    )


def is_stored_config(name: str) -> bool:
    """Whether a path stands for the config that a run stored with a checkpoint."""
    return _is_stored(find_config_file(name))


def _is_stored(file: Path) -> bool:
    return file.name == TRAIN_CONFIG


def find_config_file(name: str) -> Path:
    """The config file that a path stands for: a file, a checkpoint, or a run directory."""
    path = Path(name)
    candidates = [
        path / TRAIN_CONFIG,
        path / PRETRAINED / TRAIN_CONFIG,
        path / "last" / PRETRAINED / TRAIN_CONFIG,
        path / LAST_CHECKPOINT / PRETRAINED / TRAIN_CONFIG,
    ]
    if path.is_file():
        return path
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    looked = f"; a folder must hold {TRAIN_CONFIG} or checkpoints/last" if path.is_dir() else ""
    raise ConfigError([f"no configuration at {name}{looked}"])


def read_policy_file(name: str, revision: str | None = None) -> Tree:
    """The policy section stored with a pretrained policy, from a folder or the Hub."""
    folder = Path(name)
    for candidate in (folder / POLICY_CONFIG, folder / PRETRAINED / POLICY_CONFIG):
        if candidate.is_file():
            return _from_elsewhere(_read_tree(candidate, "--policy.path"))
    if folder.exists() or name.count("/") != 1:
        raise ConfigError([f"--policy.path={name} holds no {POLICY_CONFIG}"])
    return _from_elsewhere(_read_tree(_download_policy_file(name, revision), "--policy.path"))


def _download_policy_file(repo_id: str, revision: str | None) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(repo_id, POLICY_CONFIG, revision=revision))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(
            [f"--policy.path={repo_id} is no local folder and the Hub did not give it: {reason}"]
        ) from None


def _from_elsewhere(policy: Tree) -> Tree:
    """A stored policy without its owner's wish to publish it."""
    return policy | {"push_to_hub": False}


def _read_tree(path: Path, flag: str) -> Tree:
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = str(error).replace("\n", " ")
        raise ConfigError([f"{flag}: {path} cannot be read: {reason}"]) from None
    if not isinstance(tree, dict):
        raise ConfigError([f"{flag}: {path} must hold named values, not {type(tree).__name__}"])
    return tree


def to_json(config: Any) -> str:
    """A config as the text of a JSON file."""
    return json.dumps(encode(config), indent=4)


def to_yaml(config: TrainConfig) -> str:
    """A config as YAML for people, and for --config."""
    return yaml.safe_dump(encode(config), sort_keys=False, allow_unicode=True)
