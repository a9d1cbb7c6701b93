"""Flags of commands that do without a dataset where its shapes are described."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from manyhands.cli.own_flags import split_flags
from manyhands.config.flags import overlay
from manyhands.config.made_up import MadeUpConfig
from manyhands.config.resolve import resolve_train_config
from manyhands.config.schema import Tree
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError

NAMING = ("repo_id", "root", "mix")
"""Flags of --dataset that say which data there is."""
MADE_UP = {"repo_id": None, "root": "made-up", "mix": None}

Described = TypeVar("Described", bound=MadeUpConfig)


def read_described(
    kind: type[Described], usage: str, arguments: Sequence[str]
) -> tuple[Described, TrainConfig]:
    """A command's own flags, and the run they are about; without data it names no dataset."""
    own, tree = split_flags(kind, usage, arguments)
    section = tree.get("dataset")
    named = [name for name in NAMING if isinstance(section, dict) and name in section]
    if named and own.named_shapes:
        raise ConfigError(
            [
                f"--{name} describes synthetic data and has no effect with --dataset.{named[0]}"
                for name in own.named_shapes
            ]
        )
    # A file may name a dataset as well; flags that describe another one win over it.
    is_made_up = not named and ("config_path" not in tree or bool(own.named_shapes))
    return own, (without_dataset(tree) if is_made_up else resolve_train_config(tree))


def without_dataset(tree: Tree) -> TrainConfig:
    """The run that flags ask for, on no dataset."""
    config = resolve_train_config(overlay(tree, {"dataset": MADE_UP}))
    return replace(config, dataset=replace(config.dataset, root=None))
