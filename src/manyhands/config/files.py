"""Configuration files: YAML and JSON into trees, and a run's config back onto disk."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from manyhands.config.documents import read_document
from manyhands.config.folders import CHECKPOINTS, LAST, PRETRAINED, TRAINING_STATE
from manyhands.config.lerobot_train import from_lerobot, is_lerobots, without_wishes
from manyhands.config.schema import Tree, encode
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError

TRAIN_CONFIG = "train_config.json"
"""What LeRobot knows of a run, in its keys."""
OWN_CONFIG = "manyhands_config.json"
"""The whole of a run."""
POLICY_CONFIG = "config.json"
LAST_CHECKPOINT = Path(CHECKPOINTS, LAST)

POLICY_PLACES = (
    f"{POLICY_CONFIG} in the folder, in {PRETRAINED} or in {LAST_CHECKPOINT / PRETRAINED}"
)
"""Where a policy is looked for in a folder, for messages."""
_POLICY_FOLDERS = (Path(), Path(PRETRAINED), Path(LAST, PRETRAINED), LAST_CHECKPOINT / PRETRAINED)


def read_config_file(name: str) -> Tree:
    """The tree in a YAML or JSON file, or in the newest checkpoint of a run directory."""
    file = find_config_file(name)
    tree = _read_tree(file, "--config_path")
    if file.name == TRAIN_CONFIG or (file.suffix == ".json" and is_lerobots(tree)):
        tree = from_lerobot(tree)
    return _without_past(tree) if _is_stored(file) else tree


def _without_past(tree: Tree) -> Tree:
    """A stored run without what it resumed from, and without the steps its budget came to then."""
    derived = {"steps"} if any(tree.get(name) for name in ("epochs", "samples")) else set()
    return {key: value for key, value in tree.items() if key not in {"resume", *derived}}


def is_stored_config(name: str) -> bool:
    """Whether a path stands for the config that a run stored with a checkpoint."""
    return _is_stored(find_config_file(name))


def _is_stored(file: Path) -> bool:
    return file.name in (TRAIN_CONFIG, OWN_CONFIG)


def find_config_file(name: str) -> Path:
    """The config file that a path stands for: a file, a checkpoint, or a run directory."""
    path = Path(name)
    candidates = [
        path,
        path / OWN_CONFIG,
        path / TRAIN_CONFIG,
        path / PRETRAINED / TRAIN_CONFIG,
        path / LAST / PRETRAINED / TRAIN_CONFIG,
        path / LAST_CHECKPOINT / PRETRAINED / TRAIN_CONFIG,
    ]
    for candidate in candidates:
        if candidate.is_file():
            return _complete(candidate)
    looked = f"; a folder must contain {TRAIN_CONFIG} or checkpoints/last" if path.is_dir() else ""
    raise ConfigError([f"no configuration found at {name}{looked}"])


def _complete(file: Path) -> Path:
    """The file itself, or the one in the same checkpoint that also says what LeRobot cannot."""
    if file.name != TRAIN_CONFIG:
        return file
    # Within its own folder the name of a file does not tell where the checkpoint is.
    file = file if file.parent.name else file.absolute()
    own = file.parent.parent / TRAINING_STATE / OWN_CONFIG
    return own if own.is_file() else file


def read_policy_file(name: str, revision: str | None = None) -> Tree:
    """The policy section stored with a pretrained policy, from a folder or the Hub."""
    path = Path(name)
    folder = find_policy_folder(path)
    if folder is not None:
        return without_wishes(_read_tree(folder / POLICY_CONFIG, "--policy.path"))
    if path.exists() or name.count("/") != 1:
        raise ConfigError([f"--policy.path={name} contains no policy. Expected {POLICY_PLACES}"])
    return without_wishes(_read_tree(_download_policy_file(name, revision), "--policy.path"))


def find_policy_folder(path: Path) -> Path | None:
    """The folder of the policy that a path stands for: its own, a checkpoint's, a run's newest."""
    folders = (path / inner for inner in _POLICY_FOLDERS)
    return next((each for each in folders if (each / POLICY_CONFIG).is_file()), None)


def _download_policy_file(repo_id: str, revision: str | None) -> Path:
    from huggingface_hub import hf_hub_download

    from manyhands.config.hub import HUB_FAULTS, fetch, why

    try:
        return fetch(partial(hf_hub_download, repo_id, POLICY_CONFIG, revision=revision))
    except HUB_FAULTS as error:
        fault = f"is not a folder, and the Hub did not return its {POLICY_CONFIG}: {why(error)}"
        raise ConfigError([f"--policy.path={repo_id} {fault}"]) from None


def _read_tree(path: Path, flag: str) -> Tree:
    try:
        tree = read_document(path)
    except (OSError, ValueError) as error:
        reason = str(error).replace("\n", " ")
        raise ConfigError([f"{flag}: {path} cannot be read: {reason}"]) from None
    if not isinstance(tree, dict):
        raise ConfigError(
            [f"{flag}: {path} must contain keys and values, not {type(tree).__name__}"]
        )
    return tree


def stored_tree(config: Any) -> Tree:
    """A config as it is stored with a checkpoint."""
    tree: Tree = json.loads(to_json(config))
    return tree


def to_json(config: Any) -> str:
    """A config as the text of the JSON file that is stored with a checkpoint."""
    return json.dumps(encode(config, stored=True), indent=4)


def to_yaml(config: TrainConfig) -> str:
    """A config as YAML for people, and for --config."""
    return yaml.safe_dump(encode(config), sort_keys=False, allow_unicode=True)
