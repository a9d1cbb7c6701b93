"""Flags of `manyhands push`."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PushConfig:
    """Flags of an upload to the Hub."""

    private: bool | None = None
    """Whether a new repository is private; null: the default of the account."""
    license: str | None = None
    """License in the model card; null: --policy.license of the run."""
    tags: list[str] | None = None
    """Tags in the model card; null: --policy.tags of the run."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        return []
