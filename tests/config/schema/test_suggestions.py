"""Advice works: every flag that a message names exists and takes the value it is shown with."""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from functools import cache
from pathlib import Path

import pytest

import manyhands.config
import manyhands.config.commands
import manyhands.config.launch
from manyhands.config.launch.slurm import SlurmConfig
from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.registry import POLICY_TYPES
from manyhands.config.resolve import resolve_train_config
from manyhands.config.schema.command_line import SPELLINGS, SWITCHES, read_flags
from manyhands.config.schema.decoding import Flag, RawText, decode_value, flags_of
from manyhands.config.schema.suggestions import (
    flags_in,
    help_topic,
    hub_note,
    longer_warmup,
    suggest_flag,
)
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError

ROOT = Path(inspect.getfile(manyhands.config)).parents[1]
OF_OTHER_PROGRAMS = {
    *("--cpu", "--main_process_port", "--master", "--nproc", "--parsable", "--exclusive"),
    *("--constraint", "--env.type", "--eval.n_episodes", "--robot.type", "--shm"),
}
"""Flags of accelerate, torchrun, sbatch, docker and LeRobot."""
FOR_EXAMPLE = {"--a", "--a.b", "--a_b", "--flag", "--name"}
WITHOUT_A_COMMAND = {"--version"}
SCRIPTS = {"launch/slurm.py", "launch/train.sbatch", "lerobot_format/dataset/fetching.py"}
"""Files that call other programs with their flags."""


@cache
def train_flags() -> dict[str, Flag]:
    return {f"--{flag.name}": flag for flag in flags_of(TrainConfig)}


@cache
def job_flags() -> set[str]:
    return {f"--{flag.name}" for flag in flags_of(SlurmConfig)}


@cache
def all_flags() -> set[str]:
    """The flags and sections of all commands."""
    modules = [
        f"{package.__name__}.{each.name}"
        for package in (manyhands.config, manyhands.config.commands, manyhands.config.launch)
        for each in pkgutil.iter_modules(package.__path__)
    ]
    members = [vars(importlib.import_module(name)) for name in modules]
    kinds = {kind for each in members for kind in each.values() if inspect.isclass(kind)}
    names = {flag.name for kind in kinds if is_dataclass(kind) for flag in flags_of(kind)}
    parts = [name.split(".") for name in names]
    sections = {".".join(part[:n]) for part in parts for n in range(1, len(part) + 1)}
    return {f"--{name}" for name in (*sections, *SPELLINGS, *SPELLINGS.values(), *SWITCHES)}


def texts() -> Iterator[tuple[str, str]]:
    """Every text in the source with its file."""
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name not in SCRIPTS:
            tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            constants = [node.value for node in tree if isinstance(node, ast.Constant)]
            yield from ((name, text) for text in constants if isinstance(text, str))


def test_every_flag_that_a_text_names_exists():
    named = {(file, flag.partition("=")[0]) for file, text in texts() for flag in flags_in(text)}
    assert len(named) > 100
    known = all_flags() | OF_OTHER_PROGRAMS | FOR_EXAMPLE | WITHOUT_A_COMMAND
    assert not {(file, flag) for file, flag in named if flag not in known}


def test_every_value_that_a_text_shows_with_a_flag_can_be_read():
    shown = {flag for _, text in texts() for flag in flags_in(text) if "=" in flag}
    pairs = [flag.split("=", 1) for flag in shown]
    # Capitals stand for a value of the reader's choice; a list or a quote may go on elsewhere.
    given = [pair for pair in pairs if pair[1].islower() and pair[1][0] not in "'\"[{"]
    known = [(name, value) for name, value in given if name in train_flags()]
    assert len(known) > 20
    for name, value in known:
        for choice in value.rstrip("'`").split("|"):
            decode_value(train_flags()[name].type, RawText(choice))


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("--learning_rate=1e-4", "unknown flag --learning_rate; use --optimizer.lr"),
        ("--lr=1e-4", "unknown flag --lr; use --optimizer.lr"),
        ("--warmup_steps=100", "use --scheduler.num_warmup_steps, with --scheduler.type=constant"),
        ("--gpus=4", "unknown flag --gpus; use --launch.num_processes"),
        ("--fp16", "unknown flag --fp16; use --accelerator.mixed_precision=fp16"),
        ("--chunk_size=10", "unknown flag --chunk_size; use --policy.chunk_size"),
        ("--wandb_project=x", "unknown flag --wandb_project; use --wandb.project"),
        ("--optimizer.learning_rate=1", "--optimizer.learning_rate; use --optimizer.lr"),
        ("--policy.learning_rate=1", "unknown flag --policy.learning_rate; use --optimizer.lr"),
        ("--training.lr=1", "unknown flag --training.lr; use --optimizer.lr"),
        ("--policy.batch_size=3", "unknown flag --policy.batch_size; use --batch_size"),
        ("--dataset.path=data", "unknown flag --dataset.path; use --dataset.root"),
        ("--policy.name=act", "unknown flag --policy.name; use --policy.type"),
        ("--cache.root=a", "unknown flag --cache.root; use --cache.folder"),
        ("--stepps=3", "unknown flag --stepps; did you mean --steps?"),
        ("--dataset.rot=a", "unknown flag --dataset.rot; did you mean --dataset.root?"),
    ],
)
def test_what_a_flag_means_comes_before_how_it_is_spelled(typed, told):
    tree = read_flags(["--dataset.root=data", "--policy.type=act", typed]).tree
    with pytest.raises(ConfigError) as error:
        resolve_train_config(tree)
    assert told in str(error.value)


@pytest.mark.parametrize(
    "name", ["quux_zzz", "debug", "quiet", "stats", "hostfile", "policy.kernal", "wandb.tag_list"]
)
def test_a_name_like_no_other_gets_no_advice(name):
    assert suggest_flag(name, train_flags()) == ""


@pytest.mark.parametrize(
    ("name", "flags", "told"),
    [
        ("fats", ["--fast", "--seed"], "; did you mean --fast?"),
        ("out", ["--output", "--frames"], "; did you mean --output?"),
        ("out", ["--output", "--outside"], ""),
    ],
)
def test_swapped_letters_and_a_single_beginning_are_understood(name, flags, told):
    assert suggest_flag(name, flags) == told


@pytest.mark.parametrize(
    ("name", "topic"), [("cache.frames", "; see --help=cache"), ("quux", "; see --help=all")]
)
def test_a_name_like_no_other_leads_to_the_help_of_its_section(name, topic):
    assert help_topic(name, train_flags()) == topic
    assert help_topic(name, ["--json"]) == "; see --help"


def test_a_synonym_is_not_named_to_a_command_without_its_flag():
    flags = [f"--{flag.name}" for flag in flags_of(SlurmConfig)]
    assert "--launch.num_processes" not in suggest_flag("gpus", flags)


@pytest.mark.parametrize("kind", ["act", "diffusion", "smolvla"])
def test_the_flags_for_a_longer_warm_up_work_for_every_policy(kind):
    base = ["--dataset.root=data", f"--policy.type={kind}"]
    advice = longer_warmup(resolve_train_config(read_flags(base).tree))
    config = resolve_train_config(read_flags([*base, *advice.split()]).tree)
    assert config.scheduler is not None and config.scheduler.num_warmup_steps == 1000
    assert kind in POLICY_TYPES


def test_a_name_on_the_hub_without_a_push_is_noted():
    policy = ActConfig(repo_id="me/act")
    (note,) = hub_note(TrainConfig(policy=policy))
    assert "not pushed to me/act" in note and "--policy.push_to_hub=true" in note
    assert hub_note(TrainConfig(policy=replace(policy, push_to_hub=True))) == []
    assert hub_note(TrainConfig(policy=ActConfig())) == hub_note(TrainConfig()) == []
