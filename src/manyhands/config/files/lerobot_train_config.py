"""LeRobot's `train_config.json`: writes a run in its keys, and reads its keys into a run.

LeRobot rejects a file with an unknown key. Written are the keys common to its releases from 0.6 on,
in their order; a run's own settings are stored in a second file (`config/files/config_files.py`).
"""

from dataclasses import fields
from pathlib import Path
from typing import Any

from manyhands.config.policies.base import NOT_LEROBOTS
from manyhands.config.schema.decoding import Tree, encode
from manyhands.config.sections.env import ENV_TYPES
from manyhands.config.train import DatasetConfig, TrainConfig
from manyhands.errors import ConfigError

DEFAULTS: Tree = {
    "dataset": {
        "repo_id": None,
        "repo_type": "dataset",
        "root": None,
        "episodes": None,
        "image_transforms": None,
        "revision": None,
        "use_imagenet_stats": True,
        "video_backend": "pyav",
        "return_uint8": False,
        "depth_output_unit": "mm",
        "streaming": False,
        "eval_split": 0.0,
    },
    "env": None,
    "policy": None,
    "reward_model": None,
    "output_dir": None,
    "job_name": None,
    "resume": False,
    "seed": 1000,
    "cudnn_deterministic": False,
    "num_workers": 4,
    "batch_size": 8,
    "prefetch_factor": 4,
    "persistent_workers": True,
    "dataloader_multiprocessing_context": "spawn",
    "steps": 100_000,
    "env_eval_freq": 20_000,
    "log_freq": 200,
    "eval_steps": 0,
    "max_eval_samples": 0,
    "tolerance_s": 1e-4,
    "save_checkpoint": True,
    "save_freq": 20_000,
    "use_policy_training_preset": True,
    "optimizer": None,
    "scheduler": None,
    "eval": {
        "n_episodes": 50,
        "batch_size": 0,
        "use_async_envs": True,
        "recording": False,
        "recording_repo_id": None,
        "recording_private": False,
    },
    "wandb": {
        "enable": False,
        "disable_artifact": False,
        "project": "lerobot",
        "entity": None,
        "notes": None,
        "run_id": None,
        "mode": None,
        "add_tags": True,
    },
    "peft": None,
    "job": {
        "target": None,
        "image": "huggingface/lerobot-gpu:latest",
        "timeout": "2d",
        "detach": False,
        "tags": [],
    },
    "save_checkpoint_to_hub": False,
    "sample_weighting": None,
    "rename_map": {},
    "checkpoint_path": None,
}
"""Every key LeRobot writes, in its order, with the value of a run that does not use it."""

OLD_NAMES = {"eval_freq": "env_eval_freq"}
"""Settings that older releases of LeRobot name otherwise."""

LEROBOT_ENVS = ("aloha", "pusht")  # Environments of ours that LeRobot has under the same type.

MARKS = ("reward_model", "eval_freq")  # Keys of which every release of LeRobot writes at least one.

RUN_HISTORY = ("resume", "parallelism", "checkpoint_path", "save_checkpoint_to_hub")
"""How a run was started, distributed and published, not what it trains."""

COMMUNICATION = ("ddp", "fsdp")
"""How weights and gradients went between processes, as little a run's own as their number."""

OWNER_SETTINGS = ("push_to_hub", "compile_model")

OLD_WEIGHTING = ("use_rabc", "rabc_")


def to_lerobot(config: TrainConfig, run_dir: Path) -> Tree:
    """Encode a run as LeRobot's document, without what LeRobot cannot express."""
    own = encode(config, without=NOT_LEROBOTS)
    own["dataset"] |= _dataset_name(config.dataset) | _episodes(config.dataset)
    if config.peft is not None:
        own["policy"]["use_peft"] = True
    if config.env is not None and config.env.type not in LEROBOT_ENVS:
        own["env"] = None
    own["job_name"] = config.job_name or (config.policy and config.policy.type)
    return _in_keys_of(DEFAULTS, own) | {"output_dir": str(run_dir), "resume": False}


def from_lerobot(tree: Tree) -> Tree:
    """LeRobot's document without publishing, process settings and its own checkpoint."""
    # Older releases write the settings of sample weighting also where it is disabled.
    weighting = () if tree.get("use_rabc") else OLD_WEIGHTING
    # Draws without a seed are equivalent to draws with the default seed.
    unset = {"seed", "dataloader_multiprocessing_context"}
    kept = {
        key: value
        for key, value in tree.items()
        if not (key in RUN_HISTORY or key.startswith(weighting) or (key in unset and value is None))
    }
    if isinstance(kept.get("policy"), dict):
        # A run with new adapters started from a policy without adapters.
        made = {"use_peft": False} if kept.get("peft") else {}
        kept["policy"] = without_publishing(kept["policy"]) | made
    if isinstance(kept.get("accelerator"), dict):
        accelerator = kept["accelerator"].items()
        kept["accelerator"] = {key: value for key, value in accelerator if key not in COMMUNICATION}
    if isinstance(kept.get("env"), dict):
        kept["env"] = _environment(kept["env"])
    return kept


def in_current_names(tree: Tree) -> Tree:
    """A tree with the current names of settings; raises if both names of one are set."""
    for old, name in OLD_NAMES.items():
        if old in tree and name in tree:
            raise ConfigError(f"--{old} and --{name} are the same setting. Set only one of them")
    return {OLD_NAMES.get(name, name): value for name, value in tree.items()}


def is_lerobots(tree: Tree) -> bool:
    """Whether LeRobot wrote a document."""
    return any(mark in tree for mark in MARKS)


def without_publishing(policy: Tree) -> Tree:
    """A stored policy without its owner's settings: publishing and compiling."""
    return {key: value for key, value in policy.items() if key not in OWNER_SETTINGS}


def _environment(env: Tree) -> Tree:
    """A stored environment without what follows from the policy's inputs here."""
    if env.get("type") not in LEROBOT_ENVS:
        return env
    known = ("type", *(item.name for item in fields(ENV_TYPES[env["type"]])))
    return {name: value for name, value in env.items() if name in known}


def _in_keys_of(defaults: Tree, own: Tree) -> Tree:
    return {name: _value_of(default, own.get(name)) for name, default in defaults.items()}


def _value_of(default: Any, own: Any) -> Any:
    if own is None:
        return default
    # An empty default takes keys of the user's choice; all others are sections.
    return _in_keys_of(default, own) if isinstance(default, dict) and default else own


def _dataset_name(dataset: DatasetConfig) -> Tree:
    """LeRobot needs one name, also for a local folder; it cannot load that of a mixture."""
    if dataset.repo_id is not None:
        return {}
    if dataset.mix is not None:
        return {"repo_id": "+".join(dataset.mix)}
    return {"repo_id": dataset.root.name if dataset.root is not None else "unnamed"}


def _episodes(dataset: DatasetConfig) -> Tree:
    """LeRobot 0.6 has no excluded episodes, only selected ones."""
    if dataset.episodes is None:
        return {}
    excluded = set(dataset.exclude_episodes or ())
    return {"episodes": [number for number in dataset.episodes if number not in excluded]}
