"""The dataset flags of a command."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ON_BAD = ("fail", "skip")
UNNAMED = "no dataset. Set --dataset.root=FOLDER or --dataset.repo_id=NAME"


@dataclass(frozen=True, kw_only=True)
class NamedDatasetConfig:
    """Dataset."""

    repo_id: str | None = None
    """Name on the Hub, and folder in the local LeRobot cache."""
    root: Path | None = None
    """Folder of the dataset; takes precedence over the cache and the Hub."""
    revision: str | None = None
    """Revision on the Hub to download."""

    def naming_faults(self) -> Iterator[str]:
        """Yield why these names do not identify a dataset."""
        if self.repo_id is None and self.root is None:
            yield UNNAMED
        if self.revision is not None and self.root is not None:
            yield "--dataset.revision is for the Hub and has no effect with --dataset.root"


@dataclass(frozen=True, kw_only=True)
class CopiedDatasetConfig(NamedDatasetConfig):
    """Dataset to copy."""

    on_bad: str = "fail"
    """Action on episodes with faults: fail (do not start) or skip (exclude them)."""
