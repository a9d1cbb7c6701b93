"""Validation of a run's config before any process starts."""

import math
import multiprocessing
import re
from collections.abc import Collection, Iterator

from manyhands.config.policies.base import BackbonePolicyConfig, PolicyConfig
from manyhands.config.policies.size_limits import size_faults
from manyhands.config.schema.rules import at_least, one_of
from manyhands.config.sections.cache import vision_token_faults
from manyhands.config.sections.dataset import ON_BAD
from manyhands.config.sections.execution import CHECKPOINT_FORMATS
from manyhands.config.sections.open_loop import open_loop_faults
from manyhands.config.sections.optim import (
    POLYNOMIAL_END_LR,
    SCHEDULE_CURVES,
    CosineDecayWithWarmupConfig,
    DiffuserSchedulerConfig,
)
from manyhands.config.sections.profile import profile_faults
from manyhands.config.train import BUDGETS, CacheConfig, DatasetConfig, TrainConfig
from manyhands.units import parse_bytes

PRECISIONS = ("no", "bf16", "fp16")
DTYPES = ("float32", "float64")
CACHE_MODES = ("auto", "disk", "ram", "off")
CACHE_ENCODINGS = ("raw", "jpeg")
NONFINITE_ACTIONS = ("stop", "skip", "rollback")
SCORES = ("held_out_loss", "held_out_loss_ema", "held_out_prediction_loss", "success")
LEAST_BYTES = 1 << 20
"""A size without a unit below this was meant in another unit."""
HUB_NAME = re.compile(r"\w([\w.-]{,94}\w)?/\w([\w.-]{,94}\w)?", re.ASCII)


def config_faults(config: TrainConfig, already_named: Collection[str] = ()) -> Iterator[str]:
    """Yield every reason why this run cannot work, in the order of the flags."""
    if "dataset" not in already_named:
        yield from _dataset_faults(config)
    if config.policy is None and "policy" not in already_named:
        yield "no policy. Set --policy.type=act, or --policy.path=FOLDER for a pretrained one"
    yield from _count_faults(config)
    yield from _budget_faults(config)
    yield from _batch_faults(config)
    yield from _policy_faults(config)
    if config.peft is not None:
        yield from config.peft.faults(config.policy)
    yield from _optimizer_faults(config)
    yield from config.scaling.faults()
    yield from config.ema.faults()
    yield from config.step.faults()
    yield from config.parallelism.faults()
    yield from config.accelerator.ddp.faults()
    if config.checkpoint_format is not None:
        yield from one_of(config, "", checkpoint_format=CHECKPOINT_FORMATS)
    yield from _evaluation_faults(config)
    yield from _retention_faults(config)
    yield from one_of(config, "", on_nonfinite=NONFINITE_ACTIONS)
    if config.on_nonfinite == "rollback" and not config.save_checkpoint:
        yield "--on_nonfinite=rollback needs checkpoints, but --save_checkpoint=false"
    yield from config.launch.faults()
    if config.launch.max_restarts > 0 and not config.save_checkpoint:
        yield "--launch.max_restarts needs checkpoints, but --save_checkpoint=false"
    if not 0 < config.timeout_s < math.inf:
        yield f"--timeout_s={config.timeout_s} must be above 0"
    yield from _precision_faults(config)
    yield from config.wandb.faults()
    yield from config.trackio.faults()


def _evaluation_faults(config: TrainConfig) -> Iterator[str]:
    if config.env is not None:
        yield from config.env.faults()
    yield from config.eval.faults()
    yield from open_loop_faults(config)
    if config.eval.expected_success is not None and not config.evaluates:
        yield "--eval.expected_success needs --env.type, and --env_eval_freq above 0"


def _retention_faults(config: TrainConfig) -> Iterator[str]:
    if config.keep_last is not None and config.keep_last < 1:
        yield f"--keep_last={config.keep_last} must be at least 1, or null to keep all checkpoints"
    yield from at_least(config, "", 0, "keep_every")
    if config.keep_every > 0 and config.keep_last is None:
        yield "--keep_every has no effect without --keep_last=N: all checkpoints are kept"
    yield from at_least(config, "", 0, "early_stopping_patience")
    if config.early_stopping_patience > 0 and config.keep_best is None:
        yield "--early_stopping_patience needs a score. Set --keep_best=held_out_loss or success"
    if config.keep_best is not None:
        yield from one_of(config, "", keep_best=SCORES)
    if config.keep_best == "success":
        if not config.evaluates:
            yield "--keep_best=success needs --env.type, and --env_eval_freq above 0"
        elif config.eval.async_ and config.early_stopping_patience > 0:
            yield (
                "--early_stopping_patience needs the score at once, but --eval.async=true finds "
                "success later. Remove one of them, or set --keep_best=held_out_loss"
            )
    elif config.keep_best is not None and config.dataset.eval_split == 0:
        yield f"--keep_best={config.keep_best} needs held-out episodes. Set --dataset.eval_split"
    if config.keep_best == "held_out_loss_ema" and not config.ema.enable:
        yield "--keep_best=held_out_loss_ema needs --ema.enable=true"
    if config.keep_best == "held_out_prediction_loss" and not _has_latent(config):
        yield (
            "--keep_best=held_out_prediction_loss is for ACT with --policy.use_vae=true. Use "
            "--keep_best=held_out_loss"
        )


def _has_latent(config: TrainConfig) -> bool:
    return getattr(config.policy, "use_vae", False) is True


def _dataset_faults(config: TrainConfig) -> Iterator[str]:
    dataset = config.dataset
    yield from dataset.naming_faults() if dataset.mix is None else _mix_faults(dataset)
    for name in ("episodes", "exclude_episodes"):
        numbers = getattr(dataset, name) or []
        if len(set(numbers)) < len(numbers) or min(numbers, default=0) < 0:
            yield f"--dataset.{name}={numbers} must be distinct numbers from 0"
    if dataset.episodes == []:
        yield "--dataset.episodes=[] selects nothing. Use null for all"
    yield from _reading_faults(config)
    yield from dataset.image_transforms.faults()


def _mix_faults(dataset: DatasetConfig) -> Iterator[str]:
    alone = ("repo_id", "root", "revision", "episodes", "exclude_episodes")
    for name in alone:
        if getattr(dataset, name) is not None:
            yield f"--dataset.{name} selects from one dataset and has no effect with --dataset.mix"
    mix = dataset.mix or {}
    if not mix:
        yield "--dataset.mix is empty. Write it as {folder or Hub name: weight}"
    for name, weight in mix.items():
        if not 0 < weight < math.inf:
            yield f"--dataset.mix: the weight {weight} of {name} must be above 0"


def _reading_faults(config: TrainConfig) -> Iterator[str]:
    dataset = config.dataset
    checks = ("auto", "quick", "full", "off")
    yield from one_of(
        dataset, "dataset.", depth_output_unit=("mm", "m"), check=checks, on_bad=ON_BAD
    )
    for name, share in (("eval_split", dataset.eval_split), ("max_bad", dataset.max_bad)):
        if not 0 <= share < 1:
            yield f"--dataset.{name}={share} must be at least 0 and below 1"
    if dataset.image_size is not None and min(dataset.image_size) < 1:
        yield f"--dataset.image_size={list(dataset.image_size)} must be two positive sizes"
    if dataset.on_bad == "skip" and dataset.check == "off":
        yield "--dataset.on_bad=skip needs a check to find bad samples. Remove --dataset.check"
    if config.eval_steps > 0 and dataset.eval_split == 0:
        yield "--eval_steps needs held-out episodes. Set --dataset.eval_split=0.1, for example"
    yield from cache_faults(config.cache)
    yield from vision_token_faults(config)
    yield from amount_faults("max_ram", config.max_ram)


def cache_faults(cache: CacheConfig) -> Iterator[str]:
    """Yield every reason why this cache cannot work."""
    yield from one_of(cache, "cache.", mode=CACHE_MODES, encoding=CACHE_ENCODINGS)
    yield from amount_faults("cache.max_disk", cache.max_disk)


def amount_faults(name: str, text: str | None) -> Iterator[str]:
    """Yield why a text is no amount of memory or disk."""
    try:
        num_bytes = parse_bytes(text or "0")
    except ValueError as error:
        yield f"--{name}={text}: {error}"
        return
    if text is not None and text.isdecimal() and 0 < num_bytes < LEAST_BYTES:
        yield f"--{name}={text} is in bytes. Write --{name}={text}GiB"


def _count_faults(config: TrainConfig) -> Iterator[str]:
    positive = ("batch_size", "global_batch_size", "steps", "samples", "log_freq")
    yield from at_least(config, "", 1, *positive, "prefetch_factor")
    counts = ("save_freq", "eval_steps", "max_eval_samples", "seed", "num_workers")
    yield from at_least(config, "", 0, *counts, "env_eval_freq")
    yield from at_least(config.launch, "launch.", 1, "num_processes")
    yield from at_least(config.launch, "launch.", 0, "max_restarts")
    yield from profile_faults(config.profile)
    accumulation = config.accelerator.gradient_accumulation
    yield from at_least(accumulation, "accelerator.gradient_accumulation.", 1, "steps")
    contexts = multiprocessing.get_all_start_methods()
    yield from one_of(config, "", dataloader_multiprocessing_context=contexts)


def _budget_faults(config: TrainConfig) -> Iterator[str]:
    given = {name: getattr(config, name) for name in BUDGETS}
    flags = [f"--{name}={value:.10g}" for name, value in given.items() if value is not None]
    if len(flags) > 1:
        yield f"{' and '.join(flags)} contradict each other. Set only one of them"
    if config.epochs is not None and not 0 < config.epochs < math.inf:
        yield f"--epochs={config.epochs} must be above 0"


def _batch_faults(config: TrainConfig) -> Iterator[str]:
    parts = config.accelerator.gradient_accumulation.steps
    if config.global_batch_size is not None and parts > 1:
        yield (
            f"--accelerator.gradient_accumulation.steps={parts} has no effect with "
            f"--global_batch_size={config.global_batch_size}: micro-batches follow from "
            "--batch_size. Set only one of them"
        )


def device_faults(flag: str, device: str | None) -> Iterator[str]:
    """Yield a fault if a device has no such name."""
    if device is not None and not re.fullmatch(r"cpu|mps|cuda(:\d+)?", device):
        yield f"{flag}={device} is not cpu, cuda, cuda:N or mps"


def _policy_faults(config: TrainConfig) -> Iterator[str]:
    policy = config.policy
    if policy is None:
        return
    # Check sizes first: with absurd ones, other checks would not terminate.
    yield from size_faults(policy) or policy.faults()
    if policy.push_to_hub:
        yield from _publishing_faults(config, policy.repo_id)
    yield from _backbone_faults(config, policy)
    if policy.use_peft and policy.pretrained_path is None:
        yield "--policy.use_peft=true needs a policy with adapters. Set --policy.path=FOLDER"
    yield from device_faults("--policy.device", policy.device)


def _publishing_faults(config: TrainConfig, repo_id: str | None) -> Iterator[str]:
    if repo_id is None:
        yield "--policy.push_to_hub=true needs --policy.repo_id=YOUR_NAME/POLICY_NAME"
    elif not is_hub_name(repo_id):
        yield f"--policy.repo_id={repo_id} is not a name on the Hub, such as YOUR_NAME/POLICY_NAME"
    if not config.save_checkpoint:
        yield "--policy.push_to_hub=true needs a checkpoint to upload, but --save_checkpoint=false"


def _backbone_faults(config: TrainConfig, policy: PolicyConfig) -> Iterator[str]:
    """Yield why weights in a file would not be used by an image encoder."""
    file = policy.backbone_weights if isinstance(policy, BackbonePolicyConfig) else None
    if file is None:
        return
    flag = f"--policy.backbone_weights={file}"
    if config.resumes:
        yield f"{flag} has no effect: --resume loads all weights from the run"
    elif policy.pretrained_path is not None:
        yield f"{flag} has no effect: --policy.path={policy.pretrained_path} loads all weights"


def is_hub_name(repo_id: str) -> bool:
    """Whether a name is a valid Hub repository name."""
    forbidden = "--" in repo_id or ".." in repo_id or repo_id.endswith(".git")
    return bool(HUB_NAME.fullmatch(repo_id)) and not forbidden


def _optimizer_faults(config: TrainConfig) -> Iterator[str]:
    if config.optimizer is None:
        if not config.use_policy_training_preset:
            yield (
                "--use_policy_training_preset=false needs an optimizer. Set "
                "--optimizer.type=adam, adamw or sgd"
            )
        return
    yield from config.optimizer.faults()
    schedule = config.scheduler
    if isinstance(schedule, DiffuserSchedulerConfig):
        yield from one_of(schedule, "scheduler.", name=SCHEDULE_CURVES)
        if schedule.name == "polynomial" and config.optimizer.lr <= POLYNOMIAL_END_LR:
            yield (
                f"--scheduler.name=polynomial decays to {POLYNOMIAL_END_LR}, so "
                f"--optimizer.lr={config.optimizer.lr} must be above that"
            )
    if schedule is not None:
        yield from at_least(schedule, "scheduler.", 0, "num_warmup_steps")
    if isinstance(schedule, CosineDecayWithWarmupConfig):
        yield from at_least(schedule, "scheduler.", 1, "num_decay_steps")
        if not 0 <= schedule.decay_lr < math.inf or not 0 < schedule.peak_lr < math.inf:
            yield "--scheduler.peak_lr must be above 0 and --scheduler.decay_lr at least 0"


def _precision_faults(config: TrainConfig) -> Iterator[str]:
    precision = config.accelerator.mixed_precision
    if precision is not None:
        yield from one_of(config.accelerator, "accelerator.", mixed_precision=PRECISIONS)
    on_cpu = config.policy is not None and config.policy.device == "cpu"
    if precision == "fp16" and on_cpu:
        yield "--accelerator.mixed_precision=fp16 needs a GPU; on the CPU use bf16 or no"
    yield from one_of(config, "", dtype=DTYPES)
    if config.dtype == "float64":
        yield from _rounding_faults(config)


def _rounding_faults(config: TrainConfig) -> Iterator[str]:
    """Yield settings that would reduce the precision of a float64 run."""
    precision = config.accelerator.mixed_precision
    if precision in ("bf16", "fp16"):
        yield f"--accelerator.mixed_precision={precision} contradicts --dtype=float64"
    elif precision is None and config.policy is not None and config.policy.use_amp:
        yield "--policy.use_amp=true contradicts --dtype=float64"
