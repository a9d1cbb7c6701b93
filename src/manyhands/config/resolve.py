"""Resolve the command line to a frozen TrainConfig: defaults < policy preset < file < flags."""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from manyhands.config.check import config_faults
from manyhands.config.files.aliases import with_warmup
from manyhands.config.files.config_files import (
    find_config_file,
    is_stored_config,
    read_config_file,
    read_policy_file,
)
from manyhands.config.files.lerobot_train_config import in_current_names
from manyhands.config.files.lerobot_unsupported import drop_unsupported
from manyhands.config.paths.stored import relocated
from manyhands.config.policies.base import PolicyConfig
from manyhands.config.resume_changes import changes_since, fixed_change_faults
from manyhands.config.runs.run_dir import CHECKPOINTS, find_checkpoint, newest_intact
from manyhands.config.runs.run_state import refuse_folder_in_use
from manyhands.config.schema.command_line import merge_trees, read_flags
from manyhands.config.schema.decoding import (
    Decoder,
    RawText,
    Tree,
    decode_value,
    encode,
    typed_flag,
)
from manyhands.config.train import (
    AUTO,
    BUDGETS,
    DEFAULT_BATCH_SIZE,
    DEFAULT_ENV_EVAL_FREQ,
    DEFAULT_STEPS,
    TrainConfig,
)
from manyhands.errors import CheckpointError, ConfigError


def resolve_train_config(flags: Tree) -> TrainConfig:
    """Resolve the run of a tree of flags; raises ConfigError with every fault found."""
    decoder = Decoder(TrainConfig, _own_file(flags))
    tree = _with_file(flags)
    tree = drop_unsupported(tree, decoder.faults)
    tree = _with_pretrained_policy(_with_sizes(tree))
    policy = _policy_of(tree)
    tree = with_warmup(tree, policy)
    config = decoder.section(TrainConfig, _with_preset(tree, policy))
    decoder.faults += _shadowed(tree) + _unused_details(tree) + _unused_evaluation(tree)
    if config.resumes:
        decoder.faults += fixed_change_faults(changes_since(Path(str(config.resume)), config))
    faults = list(
        dict.fromkeys([*decoder.faults, *config_faults(config, _named_sections(decoder))])
    )
    if faults:
        raise ConfigError(faults)
    return config


def _own_file(flags: Tree) -> Path | None:
    """The file that the user wrote for this run, which faults of its keys name."""
    named = flags.get("config_path")
    if named is None or is_stored_config(str(named)):
        return None
    return find_config_file(str(named))


def _with_file(flags: Tree) -> Tree:
    """Merge flags over the file they name, and both over the run to resume."""
    named = flags.get("config_path")
    typed = in_current_names(
        {name: value for name, value in flags.items() if name != "config_path"}
    )
    tree = typed if named is None else _merged(read_config_file(str(named)), typed)
    resume = _decoded(tree.get("resume", False))
    if resume in (False, None):
        return tree | {"resume": False}
    source = resume if isinstance(resume, str) else tree.get("output_dir")
    if resume == AUTO:
        source = _decoded(tree.get("output_dir"), str | None)
        if source is None:
            raise ConfigError([f"--resume={AUTO} needs --output_dir=RUN, the same for every start"])
        if newest_intact(Path(source)) is None:
            return tree | {"resume": AUTO}
    if resume is True and named is not None and is_stored_config(str(named)):
        source, tree = named, typed
    if source is None:
        raise ConfigError(["--resume=true needs --output_dir=RUN or --config_path=CHECKPOINT"])
    return _with_resumed_run(tree, str(source))


def _with_resumed_run(tree: Tree, source: str) -> Tree:
    """Merge a tree over the config of its checkpoint; the run continues in its current folder."""
    path = Path(source)
    checkpoint = _checkpoint_of(path.parent if path.is_file() else path)
    stored = read_config_file(str(checkpoint))
    if checkpoint.parent.name == CHECKPOINTS:
        run_dir = checkpoint.parent.parent
        stored = relocated(stored, run_dir) | {"output_dir": str(run_dir)}
    tree = _without_known_start(tree, stored)
    return _merged(stored, tree | {"resume": str(checkpoint)})


def _checkpoint_of(folder: Path) -> Path:
    """The checkpoint to resume."""
    try:
        return find_checkpoint(folder)
    except CheckpointError:
        # A run that has not saved yet can be waited for.
        refuse_folder_in_use(folder)
        raise


def _merged(below: Tree, above: Tree) -> Tree:
    """Merge one tree over another; a budget in `above` replaces any budget in `below`."""
    if any(_is_set(above, name) for name in BUDGETS):
        below = {name: value for name, value in below.items() if name not in BUDGETS}
    return merge_trees(below, above)


def _with_sizes(tree: Tree) -> Tree:
    """Add the default budget and batch size if the tree sets none."""
    sizes: Tree = {}
    if not any(_is_set(tree, name) for name in BUDGETS):
        sizes["steps"] = DEFAULT_STEPS
    if not any(_is_set(tree, name) for name in ("batch_size", "global_batch_size")):
        sizes["batch_size"] = DEFAULT_BATCH_SIZE
    return tree | sizes


def _is_set(tree: Tree, name: str) -> bool:
    return tree.get(name) not in (None, "null")


def _without_known_start(tree: Tree, stored: Tree) -> Tree:
    """Remove `policy.path` if it is the policy that the stored run started from."""
    policy, known = tree.get("policy"), stored.get("policy") or {}
    if not isinstance(policy, dict) or "path" not in policy:
        return tree
    if Path(str(policy["path"])) != Path(str(known.get("pretrained_path"))):
        return tree
    return tree | {"policy": {name: value for name, value in policy.items() if name != "path"}}


def _decoded(value: Any, hint: Any = bool | str | None) -> Any:
    return decode_value(hint, value) if isinstance(value, RawText) else value


def _with_pretrained_policy(tree: Tree) -> Tree:
    """Merge the policy section over the config stored with its pretrained policy."""
    policy = tree.get("policy")
    if isinstance(policy, str):
        return tree | {"policy": {"type": policy}}
    if not isinstance(policy, dict):
        return tree
    policy = dict(policy)
    path = policy.pop("path", None)
    if path is None and "type" not in policy:
        path = policy.get("pretrained_path")
    if path is None:
        return tree
    if "type" in policy:
        raise ConfigError([f"--policy.path={path} already sets the type. Remove --policy.type"])
    revision = policy.get("pretrained_revision")
    stored = read_policy_file(str(path), revision and str(revision))
    return tree | {"policy": merge_trees(stored, policy | {"pretrained_path": str(path)})}


def _policy_of(tree: Tree) -> PolicyConfig | None:
    """Decode only the policy, for its preset; decoding the complete tree reports its faults."""
    section = tree.get("policy")
    if not isinstance(section, dict):
        return None
    policy: PolicyConfig | None = Decoder(TrainConfig).choice(PolicyConfig, section, "policy")
    return policy


def _with_preset(tree: Tree, policy: PolicyConfig | None) -> Tree:
    """Merge the tree over the policy's preset of optimizer and schedule."""
    wanted = _decoded(tree.get("use_policy_training_preset", True))
    if policy is None or wanted is not True:
        return tree
    optimizer, scheduler = policy.optimizer_preset(), policy.scheduler_preset()
    preset: Tree = {"optimizer": encode(optimizer)}
    if scheduler is not None:
        preset["scheduler"] = encode(scheduler)
    own = {name: each for name, each in tree.items() if name != "optimizer" or each is not None}
    return merge_trees(preset, own)


def _shadowed(tree: Tree) -> list[str]:
    """Flags of preset values that the optimizer in a file overrides."""
    policy, optimizer = (tree.get(name) or {} for name in ("policy", "optimizer"))
    pairs = {"optimizer_lr": "lr", "optimizer_weight_decay": "weight_decay"}
    return [
        f"--policy.{name} has no effect: the config file sets an optimizer. Use --optimizer.{own}"
        for name, own in pairs.items()
        if isinstance(policy.get(name), RawText)
        and own in optimizer
        and not isinstance(optimizer[own], RawText)
        and not _equals(policy[name], optimizer[own])
    ]


def _equals(typed: RawText, value: Any) -> bool:
    """Whether a flag repeats a stored number, as when a run resumes with the same flags."""
    try:
        return bool(float(typed) == value)
    except ValueError:
        return False


def _unused_details(tree: Tree) -> list[str]:
    """Flags that configure a disabled feature."""
    faults = []
    for names in (("dataset", "image_transforms"), ("ema",)):
        section: Any = tree
        for name in names:
            section = section.get(name) if isinstance(section, dict) else None
        if isinstance(section, dict) and _decoded(section.get("enable")) is not True:
            flag = f"--{'.'.join(names)}"
            faults += [
                f"{flag}.{name} has no effect without {flag}.enable=true"
                for name, value in section.items()
                if name != "enable" and isinstance(value, RawText)
            ]
    return faults


def _unused_evaluation(tree: Tree) -> list[str]:
    """Flags of an evaluation without an environment, as they were typed."""
    if _is_set(tree, "env"):
        return []
    section = tree.get("eval")
    details = section if isinstance(section, dict) else {}
    typed = {f"eval.{name}": value for name, value in details.items() if name != "open_loop"}
    # Command lines for LeRobot often have it at its default, or off.
    if str(tree.get("env_eval_freq")) not in ("0", str(DEFAULT_ENV_EVAL_FREQ)):
        typed["env_eval_freq"] = tree.get("env_eval_freq")
    return [
        f"{typed_flag(name, value)}={value} has no effect without --env.type. Remove it"
        for name, value in typed.items()
        if isinstance(value, RawText)
    ]


def _named_sections(decoder: Decoder) -> set[str]:
    """Sections that a fault already names; a second error about them would be redundant."""
    both, faults = ("policy", "dataset"), decoder.faults
    # The file of a misspelled --config may name both.
    if any(fault.endswith("use --config") for fault in faults):
        return {*both}
    return {name for name in both if any(f"--{name}" in fault for fault in faults)}


def resolve_config(config: TrainConfig, flags: Sequence[str] = ()) -> TrainConfig:
    """Validate and complete a config like one of the command line, with flags over it."""
    tree = encode(config)
    for name in ("optimizer", "scheduler"):
        if tree[name] is None:
            del tree[name]
    return resolve_train_config(merge_trees(tree, read_flags(flags).tree))


def write_resolved(config: TrainConfig, file: Path) -> None:
    """Write a resolved config for another process of the run."""
    file.write_text(json.dumps(encode(config)), encoding="utf-8")


def read_resolved(file: Path) -> TrainConfig:
    """Read a config that another process has resolved: nothing is looked up or checked."""
    return Decoder(TrainConfig).section(TrainConfig, json.loads(file.read_text(encoding="utf-8")))


def choose_output_dir(config: TrainConfig, now: datetime) -> Path:
    """The run directory, by default named by time."""
    if config.output_dir is not None:
        return config.output_dir
    name = f"{now:%Y-%m-%d/%H-%M-%S}_{choose_job_name(config)}"
    return Path("outputs", "train", name)


def choose_job_name(config: TrainConfig) -> str:
    """The name of the run."""
    assert config.policy is not None
    return config.job_name or config.policy.type


def read_train_config(argv: Sequence[str]) -> TrainConfig:
    """Resolve the run of a command line."""
    if isinstance(argv, str):
        raise ConfigError(f"flags are a list of texts, not one text. Write [{argv!r}]")
    return resolve_train_config(read_flags(argv).tree)
