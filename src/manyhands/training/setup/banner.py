"""The banner of a run: devices, strategy, precision and batch arithmetic."""

from typing import Any

import torch
from torch import nn

from manyhands import units
from manyhands.config.resolve import choose_job_name
from manyhands.config.schema.decoding import encode
from manyhands.config.schema.suggestions import hub_note, longer_warmup
from manyhands.config.train import BUDGETS, TrainConfig
from manyhands.data.loading.stream import BatchSplit
from manyhands.data.order import MixedOrder
from manyhands.observe.machine import hardware, software_versions
from manyhands.parallel.world import World
from manyhands.training.run import Run
from manyhands.training.setup.batch import lr_factor
from manyhands.training.setup.data import TrainingData, datasets_of, loading_facts
from manyhands.training.setup.unused_flags import start_notes

SMALL_BATCH = 256  # Effective batch below which learning rates often need no scaling.

STEP_MODES = {
    "eager": "eager",
    "graph": "CUDA graph",
    "compile": "CUDA graph of compiled modules",
    "auto": "CUDA graph, switching to compiled modules if they are faster",
}
"""How steps run, in words."""


def format_banner(run: Run) -> list[str]:
    """The first lines of the log."""
    split, world, config, data = run.learner.split, run.world, run.config, run.data
    total, trained = num_parameters(run)
    resumed = [f"Resuming from step {run.start.step}"] if run.start.step else []
    return [
        f"Run: {choose_job_name(config)} in {run.run_dir}",
        *resumed,
        f"Distributed environment: {world.kind}",
        f"Strategy: {world.strategy}",
        f"Number of processes: {world.size}",
        f"Number of GPUs: {world.num_gpus}",
        f"Effective batch: {batch_summary(split)}",
        *dataset_lines(data),
        f"Steps: {budget_summary(config, split, data.order.num_samples)}",
        f"Parameters: {units.count(total)}, {units.count(trained)} trainable",
        f"Precision: {precision_in_use(world, run.learner.policy.dtype)}"
        f"{precision_hint(config, world)}",
        f"Step mode: {STEP_MODES[run.learner.mode]}",
        *learning_rate_lines(config, split),
        *hub_note(config),
        *start_notes(config, world, data, split),
        *(
            f"  rank {placement.rank} -> {placement.host} {placement.device} ({placement.name})"
            for placement in world.placements
        ),
    ]


def run_facts(run: Run) -> dict[str, Any]:
    """The facts about a run in `run.json`."""
    split, world, config, data = run.learner.split, run.world, run.config, run.data
    total, trained = num_parameters(run)
    return {
        "job_name": choose_job_name(config),
        "resumed_at": run.start.step,
        "changes": run.resume.changes if run.resume is not None else {},
        "versions": software_versions(),
        "hardware": hardware(),
        "dataset": {
            "root": ", ".join(str(part.root) for part in datasets_of(data.source)),
            "fingerprint": data.source.fingerprint,
            "num_episodes": data.source.num_episodes,
            "num_frames": data.source.num_frames,
            "fps": data.source.fps,
            "left_out": data.left_out,
        },
        "loading": loading_facts(config, data, world.num_local_ranks),
        "policy": {
            "type": run.learner.policy.config.type,
            "num_parameters": total,
            "num_trainable": trained,
        },
        "batch": batch_facts(config, split, data.order.num_samples),
        "budget": budget_facts(config, split, data.order.num_samples),
        "precision": precision_in_use(world, run.learner.policy.dtype),
        "strategy": world.strategy.kind.value,
        "ranks": [vars(placement) for placement in world.placements],
        "config": encode(config),
    }


def batch_facts(config: TrainConfig, split: BatchSplit, num_samples: int) -> dict[str, Any]:
    """The batch of a step; `per_process` is the largest micro-batch."""
    return {
        "per_process": split.micro_batch_size,
        "processes": split.num_ranks,
        "accumulation": split.num_micro_batches,
        "effective": split.samples_per_step,
        "steps_per_epoch": num_samples / split.samples_per_step,
        "is_even": is_even(split),
        "lr_factor": lr_factor(config.scaling, split.samples_per_step),
    }


def budget_facts(config: TrainConfig, split: BatchSplit, num_samples: int) -> dict[str, Any]:
    """The length of a run in all units, and the unit that was set."""
    total = config.num_steps * split.samples_per_step
    return {
        "asked": next(name for name in reversed(BUDGETS) if getattr(config, name) is not None),
        "steps": config.num_steps,
        "samples": total,
        "epochs": total / num_samples,
    }


def is_even(split: BatchSplit) -> bool:
    """Whether every micro-batch of every rank has the same number of samples."""
    return (
        split.micro_batch_size * split.num_ranks * split.num_micro_batches == split.samples_per_step
    )


def batch_summary(split: BatchSplit) -> str:
    """How the effective batch is split over ranks and micro-batches."""
    effective = f"{split.samples_per_step} samples per step"
    if is_even(split):
        return (
            f"{split.micro_batch_size} per process x {split.num_ranks} processes x "
            f"{split.num_micro_batches} accumulation = {effective}"
        )
    least, most = split.least_per_rank, split.most_per_rank
    per_rank = f"{least}" if least == most else f"{least} or {most}"
    parts = f"{split.num_micro_batches} micro-batches of at most {split.micro_batch_size}"
    cut = "" if split.num_micro_batches == 1 else f", in {parts}"
    return f"{effective} = {per_rank} per process over {split.num_ranks} processes{cut}"


def budget_summary(config: TrainConfig, split: BatchSplit, num_samples: int) -> str:
    """The length of a run in words."""
    facts = budget_facts(config, split, num_samples)
    name = facts["asked"]
    flag = "" if name == "steps" else f" (--{name}={getattr(config, name)})"
    return (
        f"{facts['steps']:,} steps{flag} = {facts['samples']:,} samples = "
        f"{facts['epochs']:.2f} epochs; "
        f"{num_samples / split.samples_per_step:,.1f} steps per epoch"
    )


def learning_rate_lines(config: TrainConfig, split: BatchSplit) -> list[str]:
    """How learning rates scale with the effective batch, with a note on small batches."""
    scaling = config.scaling
    if scaling.lr == "none":
        return ["Learning rate and steps: not scaled with the number of processes"]
    assert config.optimizer is not None
    factor = lr_factor(scaling, split.samples_per_step)
    lines = [
        f"Learning rate: {config.optimizer.lr:g} for a batch of {scaling.base_batch_size}, "
        f"{scaling.lr} scaling to {split.samples_per_step}: x {factor:.4g} = "
        f"{factor * config.optimizer.lr:g}; steps: not scaled"
    ]
    if factor > 1 and split.samples_per_step < SMALL_BATCH:
        lines.append(
            f"NOTE: effective batches below {SMALL_BATCH} may not need a higher learning rate. If "
            "training is unstable, try --scaling.lr=none or warm up longer: "
            f"{longer_warmup(config)}"
        )
    return lines


def batch_norm_notes(network: nn.Module, split: BatchSplit) -> list[str]:
    """Note that batch norm does not see micro-batches as one batch."""
    trains_norm = any(name.endswith("num_batches_tracked") for name in network.state_dict())
    if split.num_micro_batches == 1 or not trains_norm:
        return []
    num_seen = -(-split.samples_per_step // split.num_micro_batches)
    return [
        f"NOTE: batch norm sees each micro-batch of {num_seen} samples alone; results differ from "
        f"one batch of {split.samples_per_step}"
    ]


def dataset_lines(data: TrainingData) -> list[str]:
    """Training and held-out datasets in words."""
    lines = [
        f"Dataset: {part.num_episodes} episodes, {part.num_frames:,} frames, {part.fps:g} fps"
        f" in {part.root}"
        for part in datasets_of(data.source)
    ]
    if isinstance(data.order, MixedOrder):
        shares = data.order.counts / data.order.counts.sum()
        lines = [
            f"{line}: {split:.1%} of samples" for line, split in zip(lines, shares, strict=True)
        ]
    if data.held_out is not None:
        held = data.held_out
        lines.append(f"Held out: {held.num_episodes} episodes, {held.num_frames:,} frames")
    return lines


def num_parameters(run: Run) -> tuple[int, int]:
    """Numbers of all parameters and of trainable parameters."""
    parameters = list(run.learner.policy.network.parameters())
    trained = [each for each in parameters if each.requires_grad]
    return sum(each.numel() for each in parameters), sum(each.numel() for each in trained)


def precision_hint(config: TrainConfig, world: World) -> str:
    """How to override the default precision, if it is in use."""
    is_set = config.accelerator.mixed_precision or (config.policy and config.policy.use_amp)
    if is_set or world.precision == "no":
        return ""
    return " (for float32: --accelerator.mixed_precision=no)"


def precision_in_use(world: World, dtype: torch.dtype) -> str:
    """The actual precision of a matmul, found by running one."""
    probe = torch.ones(8, 8, device=world.device, dtype=dtype)
    with world.autocast():
        product = (probe @ probe).dtype
    strict = ", deterministic kernels" if torch.backends.cudnn.deterministic else ""
    kind = str(product).removeprefix("torch.")
    if dtype == torch.float64:
        return f"{kind}{strict}"
    if product != torch.float32:
        return f"{kind} autocast, weights and optimizer in float32{strict}"
    tf32 = world.device.type == "cuda" and torch.get_float32_matmul_precision() != "highest"
    return f"float32{' with TF32 matmul' if tf32 else ''}{strict}"
