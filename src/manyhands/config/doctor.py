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

    def faults(self) -> list[str]:
        """Everything about these values that cannot work."""
        faults = []
        if self.dataset.repo_id is None and self.dataset.root is None:
            faults.append("no dataset was named: use --dataset.root=DIR or --dataset.repo_id=NAME")
        if self.num_workers is not None and self.num_workers < 0:
            faults.append(f"--num_workers={self.num_workers} must not be negative")
        if self.json is not None and not self.json.absolute().parent.is_dir():
            faults.append(f"--json={self.json}: there is no folder {self.json.parent}")
        return faults
