"""What to do with kept frames, as the user asked for it."""

from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.check import cache_faults
from manyhands.config.dataset import NamedDatasetConfig
from manyhands.config.train import CacheConfig, CacheFolderConfig, DiskCacheConfig


@dataclass(frozen=True, kw_only=True)
class CachedDatasetConfig(NamedDatasetConfig):
    """Dataset whose frames are meant."""

    episodes: list[int] | None = None
    """Episodes to decode; null: all."""
    image_size: tuple[int, int] | None = None
    """Resize cameras to this height and width, as in training; null: no resizing."""
    depth_output_unit: str = "mm"
    """Unit of depth cameras, as in training: mm or m."""


@dataclass(frozen=True, kw_only=True)
class CacheBuildConfig:
    """Cache."""

    dataset: CachedDatasetConfig = field(default_factory=CachedDatasetConfig)
    cache: DiskCacheConfig = field(default_factory=DiskCacheConfig)
    cameras: list[str] | None = None
    """Cameras to decode; null: all."""
    num_workers: int | None = None
    """Decoding processes; null: one per core."""
    json: Path | None = None
    """JSON file for the results."""

    def faults(self) -> list[str]:
        """Values that nothing can be built with."""
        dataset = self.dataset
        rules = [
            (
                self.num_workers is not None and self.num_workers < 1,
                f"--num_workers={self.num_workers} must be at least 1",
            ),
            (
                dataset.image_size is not None and min(dataset.image_size) < 1,
                f"--dataset.image_size={dataset.image_size} must be two positive sizes",
            ),
            (
                dataset.depth_output_unit not in ("mm", "m"),
                f"--dataset.depth_output_unit={dataset.depth_output_unit} is not one of mm, m",
            ),
        ]
        faults = [sentence for is_wrong, sentence in rules if is_wrong]
        return [*dataset.naming_faults(), *faults, *cache_faults(self.on_disk)]

    @property
    def on_disk(self) -> CacheConfig:
        """The cache as training knows it; only frames on disk outlive a command."""
        return CacheConfig(mode="disk", **vars(self.cache))


@dataclass(frozen=True, kw_only=True)
class KeptDatasetConfig:
    """Dataset whose kept frames are meant."""

    root: Path | None = None
    """Folder of the dataset; null: everything in the cache."""


@dataclass(frozen=True, kw_only=True)
class CacheContentsConfig:
    """Cache."""

    dataset: KeptDatasetConfig = field(default_factory=KeptDatasetConfig)
    cache: CacheFolderConfig = field(default_factory=CacheFolderConfig)
    json: Path | None = None
    """JSON file for the results."""

    def faults(self) -> list[str]:
        """Nothing can be wrong with these."""
        return []
