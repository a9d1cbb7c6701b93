"""Flags of the commands plan, doctor, cache, demo and completion."""

from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.check import amount_faults, cache_faults
from manyhands.config.output_paths import folder_fault, json_faults
from manyhands.config.schema.rules import at_least, one_of
from manyhands.config.sections.dataset import ON_BAD, NamedDatasetConfig
from manyhands.config.train import CacheConfig, CacheFolderConfig, DiskCacheConfig, ProcessesConfig
from manyhands.units import parse_bytes


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
    """Cache."""

    dataset: CacheDatasetConfig = field(default_factory=CacheDatasetConfig)
    cache: CacheFolderConfig = field(default_factory=CacheFolderConfig)
    json: Path | None = None
    """JSON file for the results."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        return json_faults(self.json)


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Demo."""

    output_dir: Path | None = None
    """Folder for dataset, run and report; null: outputs/demo/<time>_seed<seed>."""
    seed: int = 0
    """Seed of recording and training; evaluation episodes are always the same."""
    fast: bool = False
    """Record and train just enough to see every stage; the policy learns almost nothing."""
    json: Path | None = None
    """JSON file for the results."""
    launch: ProcessesConfig = field(default_factory=ProcessesConfig)

    def faults(self) -> list[str]:
        """Return every invalid value."""
        folder = self.output_dir
        fault = None if folder is None else folder_fault("--output_dir", folder)
        return [
            *at_least(self, "", 0, "seed"),
            *at_least(self.launch, "launch.", 1, "num_processes"),
            *([] if fault is None else [fault]),
            *json_faults(self.json),
        ]


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
    """Doctor."""

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


DIMENSIONS = ("state_dim", "action_dim")
SHAPES = ("cameras", "image_size", *DIMENSIONS)  # Flags that describe synthetic data.


@dataclass(frozen=True, kw_only=True)
class SyntheticDataConfig:
    """Synthetic data."""

    cameras: int | None = None
    """Without a dataset: number of synthetic color cameras; null: 1, 0: none."""
    image_size: tuple[int, int] | None = None
    """Without a dataset: height and width of synthetic images; null: [480, 640]."""
    state_dim: int | None = None
    """Without a dataset: size of the synthetic robot state; null: 14."""
    action_dim: int | None = None
    """Without a dataset: size of a synthetic action; null: 14."""

    @property
    def named_shapes(self) -> list[str]:
        """The flags of synthetic data that are set."""
        return [name for name in SHAPES if getattr(self, name) is not None]

    def faults(self) -> list[str]:
        """Return every invalid value."""
        size = self.image_size
        faults = [*at_least(self, "", 0, "cameras"), *at_least(self, "", 1, *DIMENSIONS)]
        if size is not None and min(size) < 1:
            faults.append(f"--image_size={list(size)} must be two positive sizes")
        return faults


USUAL_GPUS = (1, 2, 4, 8)


@dataclass(frozen=True, kw_only=True)
class PlanConfig(SyntheticDataConfig):
    """Plan."""

    gpus: list[int] | None = None
    """Numbers of GPUs to plan for; null: --launch.num_processes, else [1, 2, 4, 8]."""
    gpu_memory: str | None = None
    """Memory of each GPU, as 80GiB; null: that of the GPU in this machine, if any."""
    num_samples: int | None = None
    """Without a dataset: samples of an epoch."""
    probe: bool = False
    """Time some steps on this machine, to estimate how long runs take."""
    benchmark: Path | None = None
    """Results of manyhands bench step --json=FILE with the same policy, instead of --probe."""
    json: Path | None = None
    """JSON file for the plan."""

    @property
    def gpu_bytes(self) -> int | None:
        """Memory of each GPU, where it is given."""
        return None if self.gpu_memory is None else parse_bytes(self.gpu_memory)

    def faults(self) -> list[str]:
        """Return every invalid value."""
        faults = [*super().faults(), *at_least(self, "", 1, "num_samples")]
        faults += json_faults(self.json)
        if self.probe and self.benchmark is not None:
            faults.append("--probe and --benchmark exclude each other. Remove one")
        gpus = self.gpus
        if gpus is not None and (not gpus or min(gpus) < 1):
            faults.append(f"--gpus={gpus} must be integers from 1")
        wrong = [*amount_faults("gpu_memory", self.gpu_memory)]
        if not wrong and self.gpu_bytes == 0:
            wrong.append("--gpu_memory=0 is too small for any policy")
        return [*faults, *wrong]


@dataclass(frozen=True, kw_only=True)
class CompletionConfig:
    """Shell completion, which has no flags."""

    def faults(self) -> list[str]:
        """Return no fault."""
        return []
