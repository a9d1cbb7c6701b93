"""A check of a dataset as the user asked for it."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class CheckedDatasetConfig:
    """Dataset to check."""

    repo_id: str | None = None
    """Hub name, also the folder name under the local LeRobot cache."""
    root: Path | None = None
    """Folder of the dataset; wins over the cache and the Hub."""
    episodes: list[int] | None = None
    """Episodes to check; null for all."""
    revision: str | None = None
    """Hub revision to download."""


@dataclass(frozen=True, kw_only=True)
class DoctorConfig:
    """Doctor."""

    dataset: CheckedDatasetConfig = field(default_factory=CheckedDatasetConfig)
    quick: bool = False
    """Decode the first and last picture of each file instead of all."""
    num_workers: int | None = None
    """Processes that look at files; null takes one per core."""
    json: Path | None = None
    """File to write the findings to."""
