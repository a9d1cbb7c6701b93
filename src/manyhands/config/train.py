"""A training run as the user asked for it: frozen data, LeRobot's names."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from manyhands.config.dataset import NamedDatasetConfig
from manyhands.config.ema import EmaConfig
from manyhands.config.optim import OptimizerConfig, SchedulerConfig
from manyhands.config.parallelism import DdpConfig, FsdpConfig, ParallelismConfig
from manyhands.config.peft import PeftConfig
from manyhands.config.policy import PolicyConfig
from manyhands.config.step import StepConfig
from manyhands.config.transforms import ImageTransformsConfig

DEFAULT_BATCH_SIZE = 8
DEFAULT_STEPS = 100_000
AUTO = "auto"
"""As --resume: start, or continue what is in --output_dir."""
BUDGETS = ("steps", "epochs", "samples")
"""How long a run may be said to be, each in its own unit."""
LR_SCALINGS = ("none", "linear", "sqrt")


@dataclass(frozen=True, kw_only=True)
class DatasetConfig(NamedDatasetConfig):
    """Dataset to learn from."""

    mix: dict[str, float] | None = None
    """Several datasets and their weights, {folder or Hub name: weight}, instead of one."""
    episodes: list[int] | None = None
    """Episodes to use; null for all."""
    exclude_episodes: list[int] | None = None
    """Episodes to leave out."""
    eval_split: float = 0.0
    """Share of each task's episodes held out of training, for --eval_steps."""
    use_imagenet_stats: bool = True
    """Normalize cameras with ImageNet's mean and standard deviation instead of the dataset's."""
    image_transforms: ImageTransformsConfig = field(default_factory=ImageTransformsConfig)
    image_size: tuple[int, int] | None = None
    """Height and width cameras are resized to as they are decoded; null keeps them."""
    depth_output_unit: str = "mm"
    """Unit of depth cameras: mm or m."""
    check: str = "auto"
    """How datasets are checked before training: quick, full (decodes all), auto by size, or off."""
    on_bad: str = "fail"
    """What bad samples do: fail refuses to start, skip leaves them out."""
    max_bad: float = 0.1
    """Largest share of samples that --dataset.on_bad=skip may leave out."""

    @property
    def is_named(self) -> bool:
        """Whether it says which data there is."""
        return any(name is not None for name in (self.repo_id, self.root, self.mix))


@dataclass(frozen=True, kw_only=True)
class GradientAccumulationConfig:
    """Several micro-batches per update."""

    steps: int = 1
    """Micro-batches summed into one optimizer update."""


@dataclass(frozen=True, kw_only=True)
class AcceleratorConfig:
    """Precision and accumulation."""

    mixed_precision: str | None = None
    """no, bf16 or fp16; null takes the launcher's, else bf16 where policy and GPU allow it."""
    gradient_accumulation: GradientAccumulationConfig = field(
        default_factory=GradientAccumulationConfig
    )
    fsdp: FsdpConfig = field(default_factory=FsdpConfig)
    ddp: DdpConfig = field(default_factory=DdpConfig)


@dataclass(frozen=True, kw_only=True)
class ScalingConfig:
    """What follows the effective batch."""

    lr: str = "none"
    """How learning rates follow the effective batch: none, linear or sqrt."""
    base_batch_size: int | None = None
    """Effective batch that the learning rates are meant for."""

    def faults(self) -> Iterator[str]:
        """Yield values that scale nothing."""
        base = self.base_batch_size
        if self.lr not in LR_SCALINGS:
            yield f"--scaling.lr={self.lr} is not one of {', '.join(LR_SCALINGS)}"
        elif self.lr == "none" and base is not None:
            yield f"--scaling.base_batch_size={base} has no effect with --scaling.lr=none"
        elif self.lr != "none" and base is None:
            yield (
                f"--scaling.lr={self.lr} needs --scaling.base_batch_size, the effective batch "
                "that the learning rate is meant for"
            )
        if base is not None and base < 1:
            yield f"--scaling.base_batch_size={base} must be at least 1"


@dataclass(frozen=True, kw_only=True)
class ProcessesConfig:
    """Worker processes of this machine."""

    num_processes: int | None = None
    """Processes to start on this machine; null starts one per GPU."""


@dataclass(frozen=True, kw_only=True)
class LaunchConfig(ProcessesConfig):
    """Worker processes, where no launcher starts them."""

    gpu_ids: list[int] | None = None
    """GPUs to use, counted among those that CUDA_VISIBLE_DEVICES leaves; null uses all."""
    num_machines: int = 1
    """Machines that the same command is started on."""
    machine_rank: int = 0
    """Which of the machines this one is, from 0."""
    main_address: str | None = None
    """Name or address of machine 0, where processes meet."""
    main_port: int | None = None
    """Port on machine 0 that processes meet at; null takes a free one, if there is one machine."""
    max_restarts: int = 0
    """Times to start all processes again when one dies; a new checkpoint resets the count."""

    def faults(self) -> Iterator[str]:
        """Yield what starts no processes."""
        ids = self.gpu_ids
        if ids is not None and (not ids or len(set(ids)) < len(ids) or min(ids) < 0):
            yield f"--launch.gpu_ids={ids} must be different numbers from 0"
        elif ids is not None and self.num_processes not in (None, len(ids)):
            yield (
                f"--launch.num_processes={self.num_processes} and the {len(ids)} GPUs of "
                f"--launch.gpu_ids={ids} contradict each other; give one of the two"
            )
        if not 0 <= self.machine_rank < self.num_machines:
            yield (
                f"--launch.machine_rank={self.machine_rank} must be at least 0 and below "
                f"--launch.num_machines={self.num_machines}"
            )
        if self.num_machines > 1 and None in (self.main_address, self.main_port):
            yield "--launch.num_machines needs --launch.main_address and --launch.main_port"
        if self.num_machines > 1 and self.max_restarts > 0:
            yield (
                f"--launch.max_restarts={self.max_restarts} starts processes of one machine again; "
                "of several, leave it to what started the command on each, with --resume=auto"
            )
        if self.num_machines == 1 and self.main_address is not None:
            yield "--launch.main_address has no effect without --launch.num_machines"


@dataclass(frozen=True, kw_only=True)
class CacheFolderConfig:
    """Where files lie that all runs of a machine share."""

    folder: Path | None = None
    """Folder of the cache; null takes MANYHANDS_HOME or ~/.cache/manyhands."""


@dataclass(frozen=True, kw_only=True)
class DiskCacheConfig(CacheFolderConfig):
    """Decoded frames on disk."""

    max_disk: str | None = None
    """Most bytes on disk, as 200GB or 50GiB; null takes a quarter of what is free."""
    encoding: str = "raw"
    """How frames are kept: raw, or jpeg (a tenth of the size, not exact, slower)."""


@dataclass(frozen=True, kw_only=True)
class CacheConfig(DiskCacheConfig):
    """Decoded frames kept for later epochs and runs."""

    mode: str = "auto"
    """Where decoded frames are kept: disk, ram, off, or auto by what fits."""
    vision_tokens: bool = False
    """Keep what a frozen image encoder makes of every frame, and read that instead of images."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Run."""

    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    policy: PolicyConfig | None = None
    peft: PeftConfig | None = None
    output_dir: Path | None = None
    """Run directory; null makes outputs/train/<date>/<time>_<job_name>."""
    job_name: str | None = None
    """Name of the run; null takes the policy's type."""
    resume: bool | str = False
    """true continues --output_dir, a path that run or checkpoint; auto starts or continues."""
    seed: int = 1000
    """Seed of weights, data order and every random draw."""
    cudnn_deterministic: bool = False
    """Use deterministic GPU kernels only; slower."""
    rename_map: dict[str, str] = field(default_factory=dict)
    """Names of dataset features as the policy knows them, {dataset's: policy's}."""
    cache: CacheConfig = field(default_factory=CacheConfig)
    max_ram: str | None = None
    """Most bytes of this machine's memory for data, as 16GiB; null takes half of what is free."""
    num_workers: int | None = None
    """Loader processes per rank; null chooses from the cores at hand."""
    batch_size: int | None = None
    """Samples per process and micro-batch; null takes 8, with --global_batch_size any number."""
    global_batch_size: int | None = None
    """Samples of one update over all processes; null takes what --batch_size comes to."""
    prefetch_factor: int = 4
    """Batches each loader process prepares ahead."""
    dataloader_multiprocessing_context: str = "forkserver"
    """How loader processes start: forkserver, spawn or fork."""
    steps: int | None = None
    """Optimizer updates to make; null takes 100,000, or what --epochs or --samples come to."""
    epochs: float | None = None
    """Times to draw every sample, instead of --steps."""
    samples: int | None = None
    """Samples to draw over all processes, instead of --steps."""
    log_freq: int = 200
    """Updates between log lines; the first and last are always logged."""
    eval_steps: int = 0
    """Updates between measurements of the held-out loss; 0 for none."""
    max_eval_samples: int = 0
    """Most held-out samples, divided over tasks; 0 for all."""
    on_nonfinite: str = "stop"
    """What an update that is not finite, and changes nothing, does: stop, skip or rollback."""
    find_batch_size: bool = False
    """Halve what a process takes at a time until it fits; the effective batch stays."""
    save_checkpoint: bool = True
    """Write checkpoints."""
    save_freq: int = 20_000
    """Updates between checkpoints; the last is always saved; 0 saves only the last."""
    checkpoint_format: str | None = None
    """With --parallelism.dp_shard: safetensors (gathered), dcp (shards), safetensors_dcp (null)."""
    keep_last: int | None = None
    """Checkpoints that stay, counted from the one saved last; null keeps all."""
    keep_every: int = 0
    """Checkpoints of every so many updates stay too; 0 for none."""
    keep_best: str | None = None
    """Score whose best checkpoint stays too: held_out_loss, held_out_loss_ema, success."""
    use_policy_training_preset: bool = True
    """Start from the policy's optimizer and schedule; flags still override single values."""
    optimizer: OptimizerConfig | None = None
    scheduler: SchedulerConfig | None = None
    scaling: ScalingConfig = field(default_factory=ScalingConfig)
    ema: EmaConfig = field(default_factory=EmaConfig)
    step: StepConfig = field(default_factory=StepConfig)
    dtype: str = "float32"
    """Numbers of weights, inputs and draws: float32, or float64 to compare runs exactly; slow."""
    accelerator: AcceleratorConfig = field(default_factory=AcceleratorConfig)
    parallelism: ParallelismConfig = field(default_factory=ParallelismConfig)
    launch: LaunchConfig = field(default_factory=LaunchConfig)
    timeout_s: float = 1800.0
    """Longest time a process may wait for the others before the run ends and shows their stacks."""
    audit: bool = False
    """Write the dataset rows of every update to audit/rank-NN.jsonl."""

    @property
    def resumes(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return self.resume not in (False, AUTO)

    @property
    def num_steps(self) -> int:
        """Updates of the run, once they are known."""
        assert self.steps is not None, "the budget of the run is not settled yet"
        return self.steps

    def without_cache(self) -> "TrainConfig":
        """The same run decoding every frame."""
        return replace(self, cache=replace(self.cache, mode="off"))
