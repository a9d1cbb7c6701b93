"""A dataset to be made from others, or a checkpoint to be made whole, as the user asked for it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.dataset import UNNAMED, NamedDatasetConfig


@dataclass(frozen=True, kw_only=True)
class ConvertConfig:
    """Conversion."""

    dataset: NamedDatasetConfig = field(default_factory=NamedDatasetConfig)
    merge: list[str] | None = None
    """Folders or Hub names of datasets to merge, in this order, instead of --dataset."""
    output: Path | None = None
    """New folder for the dataset or the merged policy; must not exist."""
    episodes: list[int] | None = None
    """Episodes to copy, in this order; null: all."""
    exclude_episodes: list[int] | None = None
    """Episodes to exclude."""
    allow_mixed_robots: bool = False
    """Merge datasets of different robots; the result has no robot_type."""
    checkpoint: Path | None = None
    """Run or checkpoint whose shards to consolidate; with --output, whose adapters to merge."""
    json: Path | None = None
    """JSON file for a summary."""

    def faults(self) -> list[str]:
        """Every reason why this cannot work."""
        faults = []
        if self.json is not None and not self.json.absolute().parent.is_dir():
            faults.append(f"--json={self.json}: folder {self.json.parent} does not exist")
        if self.checkpoint is not None:
            return [*faults, *self._checkpoint_faults()]
        if self.output is None:
            faults.append("no output folder. Set --output=FOLDER")
        return [*faults, *(self._dataset_faults() if self.merge is None else self._merge_faults())]

    def _checkpoint_faults(self) -> Iterator[str]:
        plain = ConvertConfig(checkpoint=self.checkpoint, output=self.output, json=self.json)
        for name, value in vars(self).items():
            if value != getattr(plain, name):
                yield f"--{name} is for datasets. Remove it, or remove --checkpoint"
        if self.output is not None and self.output.exists():
            yield f"--output={self.output} already exists. Choose a new folder"

    def _dataset_faults(self) -> Iterator[str]:
        for fault in self.dataset.naming_faults():
            yield f"{UNNAMED}, or several with --merge=[A,B]" if fault == UNNAMED else fault
        if self.allow_mixed_robots:
            yield "--allow_mixed_robots has no effect without --merge"

    def _merge_faults(self) -> Iterator[str]:
        if len(self.merge or ()) < 2:
            yield f"--merge={self.merge} must list at least two datasets"
        for name, value in vars(self.dataset).items():
            if value is not None:
                yield f"--merge already names the datasets. Remove --dataset.{name}"
        for flag in ("episodes", "exclude_episodes"):
            if getattr(self, flag) is not None:
                yield f"--{flag} selects from one dataset. Apply it to that dataset before --merge"
