"""Fields of a saved policy that the flags of an evaluation change: `--policy.<field>`."""

from collections.abc import Iterator
from dataclasses import fields
from typing import TypeVar

from manyhands.config.policies.base import PolicyConfig
from manyhands.config.policies.registry import POLICY_TYPES
from manyhands.config.schema.command_line import merge_trees
from manyhands.config.schema.decoding import Decoder, Tree, encode, typed_flag
from manyhands.config.schema.json_values import shown
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError

Config = TypeVar("Config", bound=PolicyConfig)


def names_of_fields() -> set[str]:
    """Names of the fields of all policies."""
    return {"type"} | {item.name for each in POLICY_TYPES.values() for item in fields(each)}


def changed_policy(saved: Config, changes: Tree) -> Config:
    """A saved policy with flags over its fields; raises ConfigError with every fault."""
    if not changes:
        return saved
    decoder = Decoder(TrainConfig)
    changed = decoder.section(type(saved), merge_trees(encode(saved), changes), "policy.")
    faults = decoder.faults or [*_fixed(saved, changed, changes)] or changed.faults()
    if faults:
        raise ConfigError(faults)
    return changed


def _fixed(saved: PolicyConfig, changed: PolicyConfig, changes: Tree) -> Iterator[str]:
    """Yield a fault for each flag that differs from a trained policy, and cannot."""
    possible = ", ".join(saved.prediction_fields)
    for name, raw in changes.items():
        before, after = getattr(saved, name), getattr(changed, name)
        after = str(raw) if name == "type" else after
        if name not in saved.prediction_fields and after != before:
            flag = typed_flag(f"policy.{name}", raw)
            yield (
                f"{flag}={shown(raw)} cannot change a trained policy, which has "
                f"{shown(encode(before))}. Remove it; an evaluation can change {possible}"
            )
