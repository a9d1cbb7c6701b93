"""What other packages add through entry points."""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

POLICIES = "manyhands.policies"
"""Group of policies' configurations, each a PolicyConfig under its type."""
NETWORKS = "manyhands.networks"
"""Group of their networks, each made from such a configuration."""

# Whatever a module of somebody else's can do wrong while it is imported.
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
    """One group of entry points."""

    found: dict[str, Any]
    """What could be loaded, by name."""
    broken: dict[str, str]
    """Why the others could not."""


@cache
def installed(group: str) -> Plugins:
    """Everything that installed packages offer in a group."""
    plugins = Plugins({}, {})
    for entry in entry_points(group=group):
        try:
            plugins.found[entry.name] = entry.load()
        except _LOADING_FAULTS as error:
            plugins.broken[entry.name] = broken(entry, f"{type(error).__name__}: {error}")
    return plugins


def broken(entry: EntryPoint, reason: str) -> str:
    """A sentence about an entry point that is of no use."""
    package = entry.dist.name if entry.dist is not None else entry.value
    return f"{entry.name} is in the package {package}, which cannot be loaded: {reason}"
