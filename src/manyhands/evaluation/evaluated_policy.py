"""A saved policy as the flags of an evaluation change it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from manyhands.config.commands.eval import EvalCommandConfig
from manyhands.config.commands.policy_changes import changed_policy
from manyhands.errors import UserError
from manyhands.lerobot_format.policy.folder import read_config
from manyhands.policies.load import load_configured
from manyhands.policies.policy import Policy


def load_evaluated(folder: Path, config: EvalCommandConfig) -> Policy:
    """The policy in a folder with the flags over its config and its rename map, on the CPU."""
    saved = changed_policy(read_config(folder), config.policy.changes)
    policy = load_configured(folder, saved, "cpu")
    if config.rename_map:
        earlier = policy.processors.rename_map
        # An input that has another name already is known by that one in messages.
        renames = {key: earlier.get(name, name) for key, name in config.rename_map.items()}
        refuse_unread(renames, policy)
        renames = with_renames(earlier, renames)
        policy.processors = replace(policy.processors, rename_map=renames)
    return policy


def refuse_unread(renames: Mapping[str, str], policy: Policy) -> None:
    """Reject renames to names that the policy does not read, or to one for several."""
    inputs, named = policy.config.recorded_features, [*renames.values()]
    unread = [name for name in named if name not in inputs]
    if unread:
        raise UserError(
            f"--rename_map names {', '.join(unread)}, which the policy does not read; it reads "
            f"{', '.join(inputs)}"
        )
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise UserError(f"--rename_map gives {', '.join(twice)} several names. Keep one of them")


def with_renames(saved: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """A rename map with others over it: an input that gets another name loses its first one."""
    kept = {key: name for key, name in saved.items() if name not in added.values()}
    return kept | dict(added)
