"""Flags of `manyhands convert`: copies, imports and repairs of datasets, checkpoints."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

from manyhands.config.paths.output import folder_fault, json_faults
from manyhands.config.schema.rules import at_least, one_of
from manyhands.config.sections.dataset import ON_BAD, UNNAMED, CopiedDatasetConfig

IMPORT_FORMATS = ("robomimic", "aloha", "zarr", "rlds", "csv")


@dataclass(frozen=True, kw_only=True)
class ImportConfig:
    """Import of a dataset of another format."""

    from_: Path | None = None
    """File or folder of another format to import: robomimic, aloha, zarr, rlds or csv."""
    format: str | None = None
    """Format of --from; null: recognized."""
    mapping: Path | None = None
    """YAML file with features, fps, task and the other values below; flags override it."""
    propose: Path | None = None
    """Write the proposed mapping to this YAML file, to edit, and import nothing."""
    features: dict[str, str] | None = None
    """Columns of each feature, joined with +, entries as NAME[0:3]; null: proposed."""
    fps: int | None = None
    """Frames per second; null: as recorded."""
    task: str | None = None
    """Task of all episodes; null: --task_column."""
    task_column: str | None = None
    """Column with the task of each frame; null: proposed."""
    robot_type: str | None = None
    """Robot to name in the dataset."""
    image_storage: str | None = None
    """Storage of cameras: video (the default), or image, which is lossless."""
    color_order: str | None = None
    """Order of the colors in the source: rgb (the default) or bgr."""

    def import_faults(self) -> Iterator[str]:
        """Yield every invalid value."""
        choices = {
            "format": IMPORT_FORMATS,
            "image_storage": ("video", "image"),
            "color_order": ("rgb", "bgr"),
        }
        for name, known in choices.items():
            if getattr(self, name) is not None:
                yield from one_of(self, "", **{name: known})
        yield from at_least(self, "", 1, "fps")
        if self.task is not None and self.task_column is not None:
            yield "--task and --task_column exclude each other. Remove one"

    @property
    def import_flags(self) -> list[str]:
        """The flags of an import that are set."""
        own = [item.name for item in fields(ImportConfig)]
        return [name.removesuffix("_") for name in own if getattr(self, name) is not None]


@dataclass(frozen=True, kw_only=True)
class ConvertConfig(ImportConfig):
    """Flags of a conversion."""

    dataset: CopiedDatasetConfig = field(default_factory=CopiedDatasetConfig)
    merge: list[str] | None = None
    """Folders or Hub names of datasets to merge, in this order, instead of --dataset."""
    output: Path | None = None
    """New folder for the dataset or the merged policy; must not exist."""
    output_dir: Path | None = None
    """The same as --output."""
    episodes: list[int] | None = None
    """Episodes to copy, in this order; null: all."""
    exclude_episodes: list[int] | None = None
    """Episodes to exclude."""
    allow_mixed_robots: bool = False
    """Merge datasets of different robots; the result has no robot_type."""
    repair: bool = False
    """Write a clean copy of a damaged dataset; episodes that cannot be repaired are dropped."""
    checkpoint: Path | None = None
    """Run or checkpoint whose shards to consolidate; with --output, whose adapters to merge."""
    json: Path | None = None
    """JSON file for a summary."""

    @property
    def target(self) -> Path | None:
        """The new folder."""
        return self.output if self.output is not None else self.output_dir

    def faults(self) -> list[str]:
        """Return every reason why this cannot work."""
        faults = [*json_faults(self.json), *self._target_faults()]
        if self.output is not None and self.output_dir is not None:
            faults.append("--output and --output_dir are the same. Remove one")
        if self.checkpoint is not None:
            return [*faults, *self._checkpoint_faults()]
        if self.target is None and self.propose is None:
            faults.append("no output folder. Set --output=FOLDER")
        if self.from_ is not None:
            return [*faults, *self.import_faults(), *self._source_faults()]
        faults += [f"--{name} has no effect without --from" for name in self.import_flags]
        if self.merge is not None:
            return [*faults, *self._merge_faults()]
        return [*faults, *self._dataset_faults()]

    def _checkpoint_faults(self) -> Iterator[str]:
        kept = {name: getattr(self, name) for name in ("output", "output_dir", "json")}
        plain = ConvertConfig(checkpoint=self.checkpoint, **kept)
        for name, value in vars(self).items():
            if value != getattr(plain, name):
                yield f"--{name} is for datasets. Remove it, or remove --checkpoint"

    def _target_faults(self) -> Iterator[str]:
        if self.target is None:
            return
        if os.path.lexists(self.target):
            yield f"--output={self.target} already exists. Set another --output"
        elif (fault := folder_fault("--output", self.target)) is not None:
            yield fault

    def _source_faults(self) -> Iterator[str]:
        others = ConvertConfig()
        for name in ("dataset", "merge", "repair", "allow_mixed_robots"):
            if getattr(self, name) != getattr(others, name):
                yield f"--{name} and --from exclude each other. Remove one"

    def _dataset_faults(self) -> Iterator[str]:
        for fault in self.dataset.naming_faults():
            yield f"{UNNAMED}, or several with --merge=[A,B]" if fault == UNNAMED else fault
        yield from one_of(self.dataset, "dataset.", on_bad=ON_BAD)
        if self.allow_mixed_robots:
            yield "--allow_mixed_robots has no effect without --merge"
        for flag in ("episodes", "exclude_episodes"):
            if self.repair and getattr(self, flag) is not None:
                yield f"--{flag} cannot be set with --repair. Copy the repaired dataset with it"

    def _merge_faults(self) -> Iterator[str]:
        if self.repair:
            yield "--repair takes one dataset. Repair each, then --merge them"
        if len(self.merge or ()) < 2:
            yield f"--merge={self.merge} must list at least two datasets"
        for name, value in vars(self.dataset).items():
            if value != getattr(CopiedDatasetConfig, name):
                yield f"--merge already names the datasets. Remove --dataset.{name}"
        for flag in ("episodes", "exclude_episodes"):
            if getattr(self, flag) is not None:
                yield f"--{flag} selects from one dataset. Apply it to that dataset before --merge"
