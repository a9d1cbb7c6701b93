"""Flags of `manyhands completion`."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CompletionConfig:
    """Shell completion, which has no flags."""

    def faults(self) -> list[str]:
        """Return no fault."""
        return []
