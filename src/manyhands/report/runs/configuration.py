"""The configuration of runs as flags: what differs from the defaults, and between runs."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from manyhands.config.policies.registry import POLICY_TYPES
from manyhands.config.schema.command_line import set_value
from manyhands.config.schema.decoding import Decoder, Tree, encode, flags_of
from manyhands.config.sections.env import ENV_TYPES
from manyhands.config.sections.optim import OPTIMIZER_TYPES, SCHEDULER_TYPES
from manyhands.config.train import DEFAULT_BATCH_SIZE, DEFAULT_STEPS, TrainConfig
from manyhands.report.text import clipped

MAX_ROWS = 600
CHOSEN = {
    "policy": POLICY_TYPES,
    "env": ENV_TYPES,
    "optimizer": OPTIMIZER_TYPES,
    "scheduler": SCHEDULER_TYPES,
}
"""Sections whose defaults depend on their type."""
OF_THIS_RUN = ("output_dir", "resume", "tensorboard.folder", "wandb.run_id")
"""Flags that another run of the same configuration must not have."""

Flags = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A flag to copy, or a plain text."""

    text: str
    is_flag: bool = True


@dataclass(frozen=True, kw_only=True)
class FlagTable:
    """Flags in rows, folded away if they are many."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    is_folded: bool = False
    is_comparison: bool = False  # Whether columns are runs
    note: str = ""


def configuration_tables(run: Mapping[str, Any]) -> list[FlagTable]:
    """The flags of one run that are not at their default, and all of them."""
    tree = run.get("config")
    if not isinstance(tree, dict):
        return []
    own, usual = flat(tree), defaults(run)
    rows = [
        [Cell(shown_flag(name, value)), Cell(shown_default(usual, name), is_flag=False)]
        for name, value in [*own.items()][:MAX_ROWS]
    ]
    changed = [row for row, name in zip(rows, own, strict=False) if differs(own, usual, name)]
    columns = ("flag", "default")
    return [
        FlagTable(title="Differences from the defaults", columns=columns, rows=changed),
        FlagTable(title="All flags", columns=columns, rows=rows, is_folded=True),
    ]


def compared_tables(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> list[FlagTable]:
    """The flags that differ between labeled runs, one column per run."""
    trees = [run.get("config") for _, run in runs]
    own = [flat(tree) if isinstance(tree, dict) else {} for tree in trees]
    names = dict.fromkeys(name for flags in own for name in flags)
    differing = [name for name in names if len({_text(flags, name) for flags in own}) > 1]
    rows = [
        [
            Cell(shown_flag(name, flags[name])) if name in flags else Cell("", is_flag=False)
            for flags in own
        ]
        for name in differing[:MAX_ROWS]
    ]
    note = "" if rows else "All flags are the same."
    title = "Differences between the runs"
    labels = [label for label, _ in runs]
    return [FlagTable(title=title, columns=labels, rows=rows, note=note, is_comparison=True)]


def _text(flags: Flags, name: str) -> str:
    return flag(name, flags[name]) if name in flags else ""


def flat(tree: Tree, prefix: str = "") -> Flags:
    """The values of nested sections by the names of their flags."""
    found: Flags = {}
    for name, value in tree.items():
        dotted = f"{prefix}{name}"
        if isinstance(value, dict) and dotted not in flag_names():
            found |= flat(value, f"{dotted}.")
        else:
            found[dotted] = value
    return found


@cache
def flag_names() -> frozenset[str]:
    """Every flag of a training run."""
    return frozenset(each.name for each in flags_of(TrainConfig))


def read_config(run: Mapping[str, Any]) -> TrainConfig | None:
    """The config of a run, without flags that are unknown here; None if it is invalid."""
    tree = run.get("config")
    if not isinstance(tree, dict):
        return None
    known: Tree = {}
    for name, value in flat(tree).items():
        if name in flag_names():
            set_value(known, name, value)
    decoder = Decoder(TrainConfig)
    try:
        config = decoder.section(TrainConfig, known)
    except (TypeError, ValueError, KeyError, AttributeError):
        return None
    return None if decoder.faults else config


def defaults(run: Mapping[str, Any]) -> Flags:
    """The flags of a run that sets nothing but the types of its sections."""
    usual = encode(TrainConfig()) | {"steps": DEFAULT_STEPS, "batch_size": DEFAULT_BATCH_SIZE}
    tree = run.get("config")
    for name, types in CHOSEN.items():
        section = tree.get(name) if isinstance(tree, dict) else None
        kind = section.get("type") if isinstance(section, dict) else None
        if isinstance(kind, str) and kind in types:
            usual[name] = encode(types[kind]()) | {"type": None}
    return flat(usual) | _preset(run)


def _preset(run: Mapping[str, Any]) -> Flags:
    """The optimizer and schedule that a run's policy sets by default."""
    config = read_config(run)
    if config is None or config.policy is None or not config.use_policy_training_preset:
        return {}
    preset = {
        "optimizer": config.policy.optimizer_preset(),
        "scheduler": config.policy.scheduler_preset(),
    }
    own = {"optimizer": config.optimizer, "scheduler": config.scheduler}
    # Another type starts from its own defaults.
    alike = {name: each for name, each in preset.items() if each and type(each) is type(own[name])}
    return flat(encode(alike))


def differs(own: Flags, usual: Flags, name: str) -> bool:
    """Whether a flag is not at its default."""
    return name not in usual or encode(own[name]) != encode(usual[name])


def flag(name: str, value: Any) -> str:
    """A flag as a word of a shell command."""
    if isinstance(value, str):
        return shlex.quote(f"--{name}={value}")
    return shlex.quote(f"--{name}={json.dumps(value, ensure_ascii=False)}")


def shown_flag(name: str, value: Any) -> str:
    """A flag of bounded length."""
    return clipped(flag(name, value))


def shown_default(usual: Flags, name: str) -> str:
    """The default of a flag, if it has one."""
    if usual.get(name) is None:
        return ""
    value = usual[name]
    return clipped(value if isinstance(value, str) else json.dumps(value), 200)


def reproduction(run: Mapping[str, Any]) -> str:
    """A command that trains the same once more, one flag per line; empty if it is unknown."""
    if not isinstance(run.get("config"), dict):
        return ""
    return " \\\n    ".join(["manyhands train", *reproducing_flags(run)])


def reproducing_flags(run: Mapping[str, Any]) -> list[str]:
    """The flags that a new run needs in order to be the same."""
    own, usual = flat(run["config"]), defaults(run)
    wanted = [name for name in own if differs(own, usual, name) and _is_wanted(name, own)]
    found = {name: own[name] for name in wanted} | dict(_processes(run, own))
    return [flag(name, value) for name, value in found.items()]


def _is_wanted(name: str, own: Flags) -> bool:
    # Steps that follow from another budget would contradict it.
    is_derived = name == "steps" and (own.get("epochs") or own.get("samples"))
    return not {name, name.partition(".")[0]} & {*OF_THIS_RUN} and not is_derived


def _processes(run: Mapping[str, Any], own: Flags) -> Iterator[tuple[str, int]]:
    """The number of processes, where a launcher has set it and all are on one machine."""
    ranks = run.get("ranks")
    known = [each for each in ranks if isinstance(each, dict)] if isinstance(ranks, list) else []
    hosts = {str(each.get("host")) for each in known}
    if len(hosts) == 1 and len(known) > 1 and own.get("launch.num_processes") is None:
        yield "launch.num_processes", len(known)
