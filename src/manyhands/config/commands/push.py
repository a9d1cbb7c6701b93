"""Flags of `manyhands push`."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PushConfig:
    """Flags of an upload to the Hub."""

    private: bool | None = None
    """Whether the repository is private; null: --policy.private of the run."""
    license: str | None = None
    """License in the model card; null: --policy.license of the run."""
    tags: list[str] | None = None
    """Tags in the model card; null: --policy.tags of the run."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        return []
