"""Policies by type: those that come with manyhands, and those that other packages add."""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from functools import cached_property

from manyhands.config.act import ActConfig
from manyhands.config.decode import unknown
from manyhands.config.diffusion import DiffusionConfig
from manyhands.config.plugins import POLICIES, installed
from manyhands.config.policy import PolicyConfig
from manyhands.config.smolvla import SmolVLAConfig

OWN = (ActConfig, DiffusionConfig, SmolVLAConfig)


class PolicyTypes(Mapping[str, type[PolicyConfig]]):
    """Configurations by `--policy.type`; other packages are asked on first use."""

    @cached_property
    def _types(self) -> dict[str, type[PolicyConfig]]:
        added = {
            name: config
            for name, config in installed(POLICIES).found.items()
            if fault_of(name, config) is None
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
    """What people call policies of a type."""
    return (POLICY_TYPES[kind].title if kind in POLICY_TYPES else None) or kind


def unknown_type(kind: str) -> str:
    """What to say of a type that cannot be had: why, or which ones can."""
    plugins = installed(POLICIES)
    if kind in plugins.broken:
        return plugins.broken[kind]
    if kind in plugins.found:
        return f"{kind} cannot be used: {fault_of(kind, plugins.found[kind])}"
    return unknown(kind, POLICY_TYPES)


def fault_of(name: str, config: object) -> str | None:
    """Why what a package offers under a name is no policy's configuration; None if it is one."""
    is_config = isinstance(config, type) and issubclass(config, PolicyConfig)
    if not is_config or not is_dataclass(config):
        return f"its entry point in {POLICIES} is not a dataclass derived from PolicyConfig"
    kind = getattr(config, "type", None)
    return None if kind == name else f"its entry point is named {name}, but its type is {kind}"
