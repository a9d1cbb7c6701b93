"""Configuration files: found, read into trees, written."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from manyhands.config.files.aliases import alias_notes, translate_aliases
from manyhands.config.files.documents import read_document
from manyhands.config.files.lerobot_train_config import (
    from_lerobot,
    in_current_names,
    is_lerobots,
    without_publishing,
)
from manyhands.config.paths.similar import similar_path
from manyhands.config.policies.base import UNSTORED
from manyhands.config.runs.run_dir import (
    CHECKPOINTS,
    LAST,
    OWN_CONFIG,
    PRETRAINED,
    TRAIN_CONFIG,
    TRAINING_STATE,
)
from manyhands.config.schema.command_line import merge_trees, set_value
from manyhands.config.schema.decoding import Tree, encode
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError

STORED = (TRAIN_CONFIG, OWN_CONFIG)
POLICY_CONFIG = "config.json"
LAST_CHECKPOINT = Path(CHECKPOINTS, LAST)

POLICY_PLACES = (
    f"{POLICY_CONFIG} in the folder, in {PRETRAINED} or in {LAST_CHECKPOINT / PRETRAINED}"
)
"""Where a policy is looked for in a folder, for messages."""
_POLICY_FOLDERS = (Path(), Path(PRETRAINED), Path(LAST, PRETRAINED), LAST_CHECKPOINT / PRETRAINED)


def read_config_file(name: str) -> Tree:
    """Read the tree of a YAML or JSON file, or of a run's newest checkpoint."""
    file = find_config_file(name)
    tree = _read_tree(file, "--config")
    if file.name == TRAIN_CONFIG or (file.suffix == ".json" and is_lerobots(tree)):
        tree = from_lerobot(tree)
    tree = in_current_names(tree)
    if file.name not in STORED:
        return translate_aliases(_nested(tree))
    # Steps of a stored config may be computed from its budget.
    derived = ("steps",) if tree.get("epochs") or tree.get("samples") else ()
    return {key: value for key, value in tree.items() if key not in ("resume", *derived)}


def _nested(tree: Tree) -> Tree:
    """A tree whose keys with dots, such as optimizer.lr, are in their sections."""
    nested: Tree = {}
    for name, value in tree.items():
        if "." in str(name):
            set_value(nested, name, value)
        elif isinstance(value, dict) and isinstance(nested.get(name), dict):
            nested[name] = merge_trees(nested[name], value)
        else:
            nested[name] = dict(value) if isinstance(value, dict) else value
    return nested


def config_file_notes(name: str) -> list[str]:
    """What the aliases in a configuration file set, for messages."""
    file = find_config_file(name)
    if file.name in STORED:
        return []
    return [f"{file}: {note}" for note in alias_notes(_read_tree(file, "--config"))]


def is_stored_config(name: str) -> bool:
    """Whether a path refers to a config stored with a checkpoint."""
    return find_config_file(name).name in STORED


def find_config_file(name: str) -> Path:
    """Find the config file of a path: a file, a checkpoint, or a run directory."""
    path = Path(name)
    candidates = [
        path,
        path / OWN_CONFIG,
        path / TRAIN_CONFIG,
        path / PRETRAINED / TRAIN_CONFIG,
        path / LAST / PRETRAINED / TRAIN_CONFIG,
        path / LAST_CHECKPOINT / PRETRAINED / TRAIN_CONFIG,
    ]
    file = next((each for each in candidates if each.is_file()), None)
    if file is None:
        places = f"; a folder must contain {TRAIN_CONFIG} or checkpoints/last"
        where = places if path.is_dir() else similar_path(path)
        raise ConfigError(f"--config={name}: no configuration found there{where}")
    # Manyhands' own config in the same checkpoint has more settings than LeRobot's.
    own = file.absolute().parent.parent / TRAINING_STATE / OWN_CONFIG
    return own if file.name == TRAIN_CONFIG and own.is_file() else file


def read_policy_file(name: str, revision: str | None = None) -> Tree:
    """Read the policy section of a pretrained policy, from a folder or the Hub."""
    path = Path(name)
    folder = find_policy_folder(path)
    if folder is not None:
        return without_publishing(_read_tree(folder / POLICY_CONFIG, "--policy.path"))
    if path.exists() or name.count("/") != 1:
        hint = similar_path(path) or f". Expected {POLICY_PLACES}"
        raise ConfigError(f"--policy.path={name} contains no policy{hint}")
    return without_publishing(_read_tree(_download_policy_file(name, revision), "--policy.path"))


def find_policy_folder(path: Path) -> Path | None:
    """Find the policy folder of a path: itself, a checkpoint's, or a run's newest."""
    folders = (path / inner for inner in _POLICY_FOLDERS)
    return next((each for each in folders if (each / POLICY_CONFIG).is_file()), None)


def _download_policy_file(repo_id: str, revision: str | None) -> Path:
    from huggingface_hub import hf_hub_download

    from manyhands.config.files.hub import HUB_ERRORS, fetch, hub_error

    try:
        return fetch(partial(hf_hub_download, repo_id, POLICY_CONFIG, revision=revision))
    except HUB_ERRORS as error:
        fault = (
            f"is not a folder, and the Hub did not return its {POLICY_CONFIG}: {hub_error(error)}"
        )
        raise ConfigError(f"--policy.path={repo_id} {fault}{similar_path(Path(repo_id))}") from None


def _read_tree(path: Path, flag: str) -> Tree:
    try:
        tree = read_document(path)
    except (OSError, ValueError) as error:
        reason = str(error).replace("\n", " ")
        raise ConfigError(f"{flag}: {path} cannot be read: {reason}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{flag}: {path} must contain keys and values, such as steps: 1000")
    return tree


def to_json(config: Any) -> str:
    """Encode a config as the JSON stored with a checkpoint."""
    return json.dumps(encode(config, without=(UNSTORED,)), indent=4)


def to_yaml(config: TrainConfig) -> str:
    """Encode a config as YAML, readable by --config."""
    return yaml.safe_dump(encode(config), sort_keys=False, allow_unicode=True)
