"""Policies by type: those of manyhands, and those of plugins."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.base import PolicyConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.config.schema.json_values import unknown_name

POLICIES = "manyhands.policies"
"""Group of policies' configurations, each a PolicyConfig under its type."""
NETWORKS = "manyhands.networks"  # Group of their networks, each made from such a configuration.

# Errors that a third-party module can raise on import.
_LOADING_FAULTS = (
    ImportError,
    AttributeError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class Plugins:
    """The plugins of one entry-point group."""

    found: dict[str, Any]
    """What could be loaded, by name."""
    broken: dict[str, str]
    """Why the others could not."""


@cache
def installed(group: str) -> Plugins:
    """Load all entry points of a group."""
    plugins = Plugins({}, {})
    for entry in entry_points(group=group):
        try:
            plugins.found[entry.name] = entry.load()
        except _LOADING_FAULTS as error:
            plugins.broken[entry.name] = broken(entry, f"{type(error).__name__}: {error}")
    return plugins


def broken(entry: EntryPoint, reason: str) -> str:
    """Describe an entry point that cannot be loaded."""
    package = entry.dist.name if entry.dist is not None else entry.value
    return f"{entry.name} is in the package {package}, which cannot be loaded: {reason}"


OWN = (ActConfig, DiffusionConfig, SmolVLAConfig)


class PolicyTypes(Mapping[str, type[PolicyConfig]]):
    """Policy configs by `--policy.type`; plugins are loaded on first use."""

    @cached_property
    def _types(self) -> dict[str, type[PolicyConfig]]:
        added = {
            name: config
            for name, config in installed(POLICIES).found.items()
            if plugin_fault(name, config) is None
        }
        return added | {config.type: config for config in OWN}

    def __getitem__(self, kind: str) -> type[PolicyConfig]:
        return self._types[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


POLICY_TYPES = PolicyTypes()


def policy_title(kind: str) -> str:
    """The display name of a policy type."""
    return (POLICY_TYPES[kind].title if kind in POLICY_TYPES else None) or kind


def unknown_type(kind: str) -> str:
    """Explain why a type is unavailable, or list those available."""
    plugins = installed(POLICIES)
    if kind in plugins.broken:
        return plugins.broken[kind]
    if kind in plugins.found:
        return f"{kind} cannot be used: {plugin_fault(kind, plugins.found[kind])}"
    return unknown_name(kind, POLICY_TYPES)


def plugin_fault(name: str, config: object) -> str | None:
    """Why a plugin's object is not a policy config; None if it is one."""
    is_config = isinstance(config, type) and issubclass(config, PolicyConfig)
    if not is_config or not is_dataclass(config):
        return f"its entry point in {POLICIES} is not a dataclass derived from PolicyConfig"
    kind = getattr(config, "type", None)
    return None if kind == name else f"its entry point is named {name}, but its type is {kind}"
