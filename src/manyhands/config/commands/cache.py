"""Flags of `manyhands cache`."""

from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.check import cache_faults
from manyhands.config.paths.output import folder_fault, json_faults
from manyhands.config.schema.rules import at_least, one_of
from manyhands.config.sections.dataset import ON_BAD, NamedDatasetConfig
from manyhands.config.train import CacheConfig, CacheFolderConfig, DiskCacheConfig


@dataclass(frozen=True, kw_only=True)
class CachedDatasetConfig(NamedDatasetConfig):
    """Dataset whose frames are selected."""

    episodes: list[int] | None = None
    """Episodes to decode; null: all."""
    image_size: tuple[int, int] | None = None
    """Resize cameras to this height and width, as in training; null: no resizing."""
    depth_output_unit: str = "mm"
    """Unit of depth cameras, as in training: mm or m."""
    on_bad: str = "fail"
    """Action on episodes with faults: fail (do not start) or skip (exclude them)."""


@dataclass(frozen=True, kw_only=True)
class CacheBuildConfig:
    """Flags of `manyhands cache build`."""

    dataset: CachedDatasetConfig = field(default_factory=CachedDatasetConfig)
    cache: DiskCacheConfig = field(default_factory=DiskCacheConfig)
    cameras: list[str] | None = None
    """Cameras to decode; null: all."""
    num_workers: int | None = None
    """Decoding processes; null: one per core."""
    json: Path | None = None
    """JSON file for the results."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        faults = [*self.dataset.naming_faults(), *at_least(self, "", 1, "num_workers")]
        size = self.dataset.image_size
        if size is not None and min(size) < 1:
            faults.append(f"--dataset.image_size={size} must be two positive sizes")
        faults += one_of(self.dataset, "dataset.", depth_output_unit=("mm", "m"), on_bad=ON_BAD)
        faults += [*cache_faults(self.on_disk), *json_faults(self.json)]
        folder = self.cache.folder
        fault = None if folder is None else folder_fault("--cache.folder", folder)
        return faults if fault is None else [*faults, fault]

    @property
    def on_disk(self) -> CacheConfig:
        """The cache config as in training; only frames on disk persist after the command."""
        return CacheConfig(mode="disk", **vars(self.cache))


@dataclass(frozen=True, kw_only=True)
class CacheDatasetConfig:
    """Dataset whose cached frames are selected."""

    root: Path | None = None
    """Folder of the dataset; null: everything in the cache."""


@dataclass(frozen=True, kw_only=True)
class CacheContentsConfig:
    """Flags of `manyhands cache show` and `manyhands cache clear`."""

    dataset: CacheDatasetConfig = field(default_factory=CacheDatasetConfig)
    cache: CacheFolderConfig = field(default_factory=CacheFolderConfig)
    json: Path | None = None
    """JSON file for the results."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        return json_faults(self.json)
