"""A check of a dataset as the user asked for it."""

from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.dataset import NamedDatasetConfig
from manyhands.config.train import CacheFolderConfig


@dataclass(frozen=True, kw_only=True)
class CheckedDatasetConfig(NamedDatasetConfig):
    """Dataset to check."""

    episodes: list[int] | None = None
    """Episodes to check; null: all."""


@dataclass(frozen=True, kw_only=True)
class DoctorConfig:
    """Doctor."""

    dataset: CheckedDatasetConfig = field(default_factory=CheckedDatasetConfig)
    cache: CacheFolderConfig = field(default_factory=CacheFolderConfig)
    quick: bool = False
    """Decode the first and last image of each file instead of all."""
    num_workers: int | None = None
    """Processes that check files; null: one per core."""
    json: Path | None = None
    """JSON file for the findings."""

    def faults(self) -> list[str]:
        """Everything about these values that cannot work."""
        faults = self.dataset.naming_faults()
        if self.num_workers is not None and self.num_workers < 0:
            faults.append(f"--num_workers={self.num_workers} must be at least 0")
        if self.json is not None and not self.json.absolute().parent.is_dir():
            faults.append(f"--json={self.json}: folder {self.json.parent} does not exist")
        return faults
