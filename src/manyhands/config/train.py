"""The config of a training run: frozen dataclasses with LeRobot's names."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from manyhands.config.policies.base import PolicyConfig
from manyhands.config.sections.dataset import NamedDatasetConfig
from manyhands.config.sections.env import EnvConfig
from manyhands.config.sections.eval import TrainEvalConfig
from manyhands.config.sections.execution import DdpConfig, FsdpConfig, ParallelismConfig, StepConfig
from manyhands.config.sections.image_transforms import ImageTransformsConfig
from manyhands.config.sections.optim import EmaConfig, OptimizerConfig, SchedulerConfig
from manyhands.config.sections.peft import PeftConfig
from manyhands.config.sections.trackers import TensorboardConfig, TrackioConfig, WandbConfig

DEFAULT_BATCH_SIZE = 8
DEFAULT_STEPS = 100_000
DEFAULT_ENV_EVAL_FREQ = 20_000
AUTO = "auto"
"""As --resume: start, or continue what is in --output_dir."""
BUDGETS = ("steps", "epochs", "samples")
"""How long a run may be said to be, each in its own unit."""
LR_SCALINGS = ("none", "linear", "sqrt")


@dataclass(frozen=True, kw_only=True)
class DatasetConfig(NamedDatasetConfig):
    """Dataset to train on."""

    mix: dict[str, float] | None = None
    """Several datasets and their weights, {folder or Hub name: weight}, instead of one."""
    episodes: list[int] | None = None
    """Episodes to use; null: all."""
    exclude_episodes: list[int] | None = None
    """Episodes to exclude."""
    eval_split: float = 0.0
    """Fraction of each task's episodes held out of training, for --eval_steps."""
    use_imagenet_stats: bool = True
    """Normalize cameras with ImageNet's mean and standard deviation instead of the dataset's."""
    image_transforms: ImageTransformsConfig = field(default_factory=ImageTransformsConfig)
    image_size: tuple[int, int] | None = None
    """Resize cameras to this height and width while decoding; null: no resizing."""
    depth_output_unit: str = "mm"
    """Unit of depth cameras: mm or m."""
    check: str = "auto"
    """Dataset check before training: quick, full (decodes all frames), auto by size, or off."""
    on_bad: str = "fail"
    """Action on bad samples: fail (do not start) or skip (exclude them)."""
    max_bad: float = 0.1
    """Largest fraction of samples that --dataset.on_bad=skip may exclude."""

    @property
    def is_named(self) -> bool:
        """Whether the config names a dataset."""
        return any(name is not None for name in (self.repo_id, self.root, self.mix))


@dataclass(frozen=True, kw_only=True)
class GradientAccumulationConfig:
    """Several micro-batches per step."""

    steps: int = 1
    """Micro-batches per optimizer step."""


@dataclass(frozen=True, kw_only=True)
class AcceleratorConfig:
    """Precision and accumulation."""

    mixed_precision: str | None = None
    """no, bf16 or fp16; null: the launcher's, else bf16 if policy and GPU support it."""
    gradient_accumulation: GradientAccumulationConfig = field(
        default_factory=GradientAccumulationConfig
    )
    fsdp: FsdpConfig = field(default_factory=FsdpConfig)
    ddp: DdpConfig = field(default_factory=DdpConfig)


@dataclass(frozen=True, kw_only=True)
class ScalingConfig:
    """Scaling with the effective batch size."""

    lr: str = "none"
    """Scaling of learning rates with the effective batch: none, linear or sqrt."""
    base_batch_size: int | None = None
    """Effective batch for which the learning rates are set."""

    def faults(self) -> Iterator[str]:
        """Yield invalid values."""
        base = self.base_batch_size
        if self.lr not in LR_SCALINGS:
            yield f"--scaling.lr={self.lr} is not one of {', '.join(LR_SCALINGS)}"
        elif self.lr == "none" and base is not None:
            yield f"--scaling.base_batch_size={base} has no effect with --scaling.lr=none"
        elif self.lr != "none" and base is None:
            yield (
                f"--scaling.lr={self.lr} needs the effective batch for which the learning rate is "
                "set. Set --scaling.base_batch_size=N"
            )
        if base is not None and base < 1:
            yield f"--scaling.base_batch_size={base} must be at least 1"


@dataclass(frozen=True, kw_only=True)
class ProcessesConfig:
    """Worker processes of this machine."""

    num_processes: int | None = None
    """Processes to start on this machine; null: one per GPU."""


@dataclass(frozen=True, kw_only=True)
class LaunchConfig(ProcessesConfig):
    """Worker processes, if no launcher starts them."""

    gpu_ids: list[int] | None = None
    """GPUs to use, by index within CUDA_VISIBLE_DEVICES; null: all."""
    num_machines: int = 1
    """Number of machines; start the same command on each."""
    machine_rank: int = 0
    """Rank of this machine, from 0."""
    main_address: str | None = None
    """Host name or address of machine 0 (rendezvous)."""
    main_port: int | None = None
    """Rendezvous port on machine 0; null: a free port, on one machine only."""
    max_restarts: int = 0
    """Restarts of all processes after one dies; a new checkpoint resets the count."""

    def faults(self) -> Iterator[str]:
        """Yield invalid values."""
        ids = self.gpu_ids
        if ids is not None and (not ids or len(set(ids)) < len(ids) or min(ids) < 0):
            yield f"--launch.gpu_ids={ids} must be distinct numbers from 0"
        elif ids is not None and self.num_processes not in (None, len(ids)):
            yield (
                f"--launch.num_processes={self.num_processes} contradicts the {len(ids)} GPUs of "
                f"--launch.gpu_ids={ids}. Set only one of them"
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
                f"--launch.max_restarts={self.max_restarts} works on one machine only. On "
                "several, let the scheduler restart the command on each, with --resume=auto"
            )
        if self.num_machines == 1 and self.main_address is not None:
            yield "--launch.main_address has no effect without --launch.num_machines"


@dataclass(frozen=True, kw_only=True)
class CacheFolderConfig:
    """Cache folder common to all runs of a machine."""

    folder: Path | None = None
    """Folder of the cache; null: MANYHANDS_HOME or ~/.cache/manyhands."""


@dataclass(frozen=True, kw_only=True)
class DiskCacheConfig(CacheFolderConfig):
    """Decoded frames on disk."""

    max_disk: str | None = None
    """Maximum bytes on disk, as 200GB or 50GiB; null: a quarter of the free disk space."""
    encoding: str = "raw"
    """Encoding of cached frames: raw, or jpeg (a tenth of the size, lossy, slower)."""


@dataclass(frozen=True, kw_only=True)
class CacheConfig(DiskCacheConfig):
    """Cache of decoded frames for later epochs and runs."""

    mode: str = "auto"
    """Where decoded frames are cached: disk, ram, off, or auto by free space."""
    vision_tokens: bool = False
    """Cache the features of a frozen image encoder and train on them instead of images."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The settings of a training run: a field for every flag of `manyhands train`, frozen.

    `read_train_config(["--dataset.root=DIR", "--policy.type=act"])` returns one with the policy's
    preset and all values checked. `train` completes and checks one that was built in Python.
    `dataclasses.replace` changes a copy. `manyhands train --help=all` describes every field.
    """

    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    policy: PolicyConfig | None = None
    peft: PeftConfig | None = None
    output_dir: Path | None = None
    """Run directory; null: outputs/train/<date>/<time>_<job_name>."""
    job_name: str | None = None
    """Name of the run; null: the policy's type."""
    resume: bool | str = False
    """true: resume --output_dir; a path: resume that run or checkpoint; auto: start or resume."""
    seed: int = 1000
    """Seed of weights, data order and noise."""
    cudnn_deterministic: bool = False
    """Use only deterministic GPU kernels; slower."""
    rename_map: dict[str, str] = field(default_factory=dict)
    """Rename dataset features to the policy's names, {dataset's: policy's}."""
    cache: CacheConfig = field(default_factory=CacheConfig)
    max_ram: str | None = None
    """Maximum bytes of host memory for data, as 16GiB; null: half of the free memory."""
    num_workers: int | None = None
    """Loader processes per rank; null: chosen from the available cores."""
    batch_size: int | None = None
    """Samples per process and micro-batch; null: 8, or any number with --global_batch_size."""
    global_batch_size: int | None = None
    """Samples per step over all processes; null: follows from --batch_size."""
    prefetch_factor: int = 4
    """Batches that each loader process prefetches."""
    dataloader_multiprocessing_context: str = "forkserver"
    """Start method of loader processes: forkserver, spawn or fork."""
    steps: int | None = None
    """Optimizer steps; null: 100,000, or from --epochs or --samples."""
    epochs: float | None = None
    """Passes over the dataset, instead of --steps."""
    samples: int | None = None
    """Training samples over all processes, instead of --steps."""
    log_freq: int = 200
    """Steps between log lines; the first and last are always logged."""
    env: EnvConfig | None = None
    env_eval_freq: int = DEFAULT_ENV_EVAL_FREQ
    """Steps between evaluations in --env.type; older name eval_freq; 0: never."""
    eval: TrainEvalConfig = field(default_factory=TrainEvalConfig)
    eval_steps: int = 0
    """Steps between validations (held-out loss); 0: never."""
    max_eval_samples: int = 0
    """Maximum number of held-out samples, divided over tasks; 0: all."""
    on_nonfinite: str = "stop"
    """Action on NaN or Inf in loss or gradients: stop, skip or rollback."""
    find_batch_size: bool = False
    """Halve the micro-batch until a step fits in memory; the effective batch is unchanged."""
    save_checkpoint: bool = True
    """Save checkpoints."""
    save_freq: int = 20_000
    """Steps between checkpoints; the last is always saved; 0: only the last."""
    checkpoint_format: str | None = None
    """With --parallelism.dp_shard: safetensors (gathered), dcp (shards), safetensors_dcp (null)."""
    keep_last: int | None = None
    """Number of newest checkpoints to keep; null: all."""
    keep_every: int = 0
    """Also keep the checkpoint of every Nth step; 0: none."""
    keep_best: str | None = None
    """Also keep the best: held_out_loss, held_out_loss_ema, held_out_prediction_loss, success."""
    early_stopping_patience: int = 0
    """Measurements of --keep_best without a better one after which the run ends; 0: never."""
    use_policy_training_preset: bool = True
    """Use the policy's optimizer and schedule; flags still override single values."""
    optimizer: OptimizerConfig | None = None
    scheduler: SchedulerConfig | None = None
    scaling: ScalingConfig = field(default_factory=ScalingConfig)
    ema: EmaConfig = field(default_factory=EmaConfig)
    step: StepConfig = field(default_factory=StepConfig)
    dtype: str = "float32"
    """Precision of weights, inputs and noise: float32, or float64 (exact comparison, slow)."""
    accelerator: AcceleratorConfig = field(default_factory=AcceleratorConfig)
    parallelism: ParallelismConfig = field(default_factory=ParallelismConfig)
    launch: LaunchConfig = field(default_factory=LaunchConfig)
    timeout_s: float = 1800.0
    """Seconds a process may wait for the others before the run ends and prints their stacks."""
    audit: bool = False
    """Write the dataset indices of every step to audit/rank-NN.jsonl."""
    profile: str | None = None
    """Profile steps, as 100:105 (first and last), or steps: a few after the start."""
    wandb: WandbConfig = field(default_factory=WandbConfig)
    tensorboard: TensorboardConfig = field(default_factory=TensorboardConfig)
    trackio: TrackioConfig = field(default_factory=TrackioConfig)

    @property
    def resumes(self) -> bool:
        """Whether the run resumes from a checkpoint."""
        return self.resume not in (False, AUTO)

    @property
    def evaluates(self) -> bool:
        """Whether the run evaluates its policy in simulation."""
        return self.env is not None and self.env_eval_freq > 0

    @property
    def num_steps(self) -> int:
        """Steps of the run, once resolved."""
        assert self.steps is not None, "the budget of the run is not settled yet"
        return self.steps

    def without_cache(self) -> "TrainConfig":
        """The same run with the cache disabled."""
        return replace(self, cache=replace(self.cache, mode="off"))
