"""Everything about a run that cannot work, said before any process starts."""

import math
import multiprocessing
import re
from collections.abc import Collection, Iterator

from manyhands.config.optim import (
    SCHEDULE_CURVES,
    CosineDecayWithWarmupConfig,
    DiffuserSchedulerConfig,
)
from manyhands.config.train import TrainConfig

PRECISIONS = ("no", "bf16", "fp16")


def faults_of(config: TrainConfig, already_named: Collection[str] = ()) -> Iterator[str]:
    """Yield every reason this run cannot work, in the order of the flags."""
    if "dataset" not in already_named:
        yield from _dataset_faults(config)
    if config.policy is None and "policy" not in already_named:
        yield "no policy: give --policy.type=act, or --policy.path=FOLDER to start from one"
    yield from _count_faults(config)
    yield from _policy_faults(config)
    yield from _optimizer_faults(config)
    yield from _precision_faults(config)


def _dataset_faults(config: TrainConfig) -> Iterator[str]:
    dataset = config.dataset
    if dataset.repo_id is None and dataset.root is None:
        yield "no dataset: give --dataset.root=FOLDER or --dataset.repo_id=NAME"
    if dataset.revision is not None and dataset.root is not None:
        yield "--dataset.revision chooses a Hub revision and has no effect with --dataset.root"
    episodes = dataset.episodes
    if episodes is not None and (
        len(set(episodes)) < len(episodes) or min(episodes, default=0) < 0
    ):
        yield f"--dataset.episodes={episodes} must be different numbers from 0"
    if episodes == []:
        yield "--dataset.episodes=[] selects nothing; null selects all"


def _count_faults(config: TrainConfig) -> Iterator[str]:
    least = {
        "batch_size": (config.batch_size, 1),
        "steps": (config.steps, 1),
        "log_freq": (config.log_freq, 1),
        "save_freq": (config.save_freq, 0),
        "seed": (config.seed, 0),
        "prefetch_factor": (config.prefetch_factor, 1),
        "num_workers": (config.num_workers, 0),
        "launch.num_processes": (config.launch.num_processes, 1),
        "accelerator.gradient_accumulation.steps": (
            config.accelerator.gradient_accumulation.steps,
            1,
        ),
    }
    for name, (value, minimum) in least.items():
        if value is not None and value < minimum:
            yield f"--{name}={value} must be at least {minimum}"
    context, known = (
        config.dataloader_multiprocessing_context,
        multiprocessing.get_all_start_methods(),
    )
    if context not in known:
        yield f"--dataloader_multiprocessing_context={context} is not one of {', '.join(known)}"


def _policy_faults(config: TrainConfig) -> Iterator[str]:
    policy = config.policy
    if policy is None:
        return
    yield from policy.faults()
    if policy.push_to_hub:
        yield (
            "--policy.push_to_hub=true: runs stay local; set it to false and upload the "
            "pretrained_model folder of a checkpoint with `hf upload`"
        )
    if policy.use_peft:
        yield "--policy.use_peft=true: adapters cannot be trained with this policy"
    if policy.device is not None and not re.fullmatch(r"cpu|cuda(:\d+)?", policy.device):
        yield f"--policy.device={policy.device} is not cpu, cuda or cuda:N"


def _optimizer_faults(config: TrainConfig) -> Iterator[str]:
    if config.optimizer is None:
        if not config.use_policy_training_preset:
            yield "--use_policy_training_preset=false needs --optimizer.type=adam, adamw or sgd"
        return
    yield from config.optimizer.faults()
    schedule = config.scheduler
    if isinstance(schedule, DiffuserSchedulerConfig) and schedule.name not in SCHEDULE_CURVES:
        yield f"--scheduler.name={schedule.name} is not one of {', '.join(SCHEDULE_CURVES)}"
    warmup = schedule.num_warmup_steps if schedule else None
    if warmup is not None and warmup < 0:
        yield f"--scheduler.num_warmup_steps={warmup} must be at least 0"
    if isinstance(schedule, CosineDecayWithWarmupConfig):
        if schedule.num_decay_steps < 1:
            yield f"--scheduler.num_decay_steps={schedule.num_decay_steps} must be at least 1"
        if not 0 <= schedule.decay_lr < math.inf or not 0 < schedule.peak_lr < math.inf:
            yield "--scheduler.peak_lr must be above 0 and --scheduler.decay_lr at least 0"


def _precision_faults(config: TrainConfig) -> Iterator[str]:
    precision = config.accelerator.mixed_precision
    if precision is not None and precision not in PRECISIONS:
        yield f"--accelerator.mixed_precision={precision} is not one of {', '.join(PRECISIONS)}"
    on_cpu = config.policy is not None and config.policy.device == "cpu"
    if precision == "fp16" and on_cpu:
        yield "--accelerator.mixed_precision=fp16 needs a GPU; on the CPU use bf16 or no"
