"""Flags of `manyhands doctor`."""

from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.paths.output import json_faults
from manyhands.config.schema.rules import at_least
from manyhands.config.sections.dataset import NamedDatasetConfig
from manyhands.config.train import CacheFolderConfig


@dataclass(frozen=True, kw_only=True)
class CheckedDatasetConfig(NamedDatasetConfig):
    """Dataset to check."""

    episodes: list[int] | None = None
    """Episodes to check; null: all."""


@dataclass(frozen=True, kw_only=True)
class ExaminationConfig:
    """Results of a check."""

    json: Path | None = None
    """JSON file for the findings."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        return json_faults(self.json)


@dataclass(frozen=True, kw_only=True)
class DoctorConfig(ExaminationConfig):
    """Flags of a check of a dataset."""

    dataset: CheckedDatasetConfig = field(default_factory=CheckedDatasetConfig)
    cache: CacheFolderConfig = field(default_factory=CacheFolderConfig)
    quick: bool = False
    """Decode the first and last image of each file instead of all."""
    all: bool = False
    """Print every finding instead of the first of each check."""
    quality: bool = False
    """Also judge every episode: jerk, idle, truncated, frozen or dark cameras, duplicates."""
    num_workers: int | None = None
    """Processes that check files; null: one per core."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        own = [*self.dataset.naming_faults(), *at_least(self, "", 0, "num_workers")]
        return [*own, *super().faults()]
