"""The proof at start: what runs where, in which precision, and the arithmetic of the batch."""

from typing import Any

import torch
from torch import nn

from manyhands import units
from manyhands.config.resolve import job_name_of
from manyhands.config.schema import encode
from manyhands.data.dataset import Dataset
from manyhands.data.mixed_order import MixedOrder
from manyhands.data.mixture import Mixture
from manyhands.observe.machine import hardware, software_versions
from manyhands.parallel.world import World
from manyhands.training.data import TrainingData
from manyhands.training.run import Run


def banner_of(run: Run, data: TrainingData) -> list[str]:
    """The lines a run opens with."""
    share, world, config = run.learner.share, run.world, run.config
    per_step, num_samples = share.samples_per_step, data.order.num_samples
    num_parts = share.samples_per_rank // config.batch_size
    epochs = config.steps * per_step / num_samples
    total, trained = num_parameters(run)
    resumed = [f"Resuming after step {run.start.step}"] if run.start.step else []
    return [
        f"Run: {job_name_of(config)} in {run.run_dir}",
        *resumed,
        f"Distributed environment: {world.kind}",
        f"Number of processes: {world.size}",
        f"Number of GPUs: {world.num_gpus}",
        f"Effective batch: {config.batch_size} per process x {world.size} processes x "
        f"{num_parts} accumulation = {per_step} samples per update",
        *datasets_told(data),
        f"Steps: {config.steps:,} updates = {config.steps * per_step:,} samples = "
        f"{epochs:.2f} epochs; {num_samples / per_step:,.1f} steps per epoch",
        f"Parameters: {units.count(total)}, {units.count(trained)} trained",
        f"Precision: {precision_in_use(world)}",
        "Learning rate and steps are as given, not scaled with the number of processes",
        *(f"  rank {seat.rank} -> {seat.host} {seat.device} ({seat.name})" for seat in world.seats),
    ]


def facts_of(run: Run, data: TrainingData) -> dict[str, Any]:
    """What `run.json` keeps of a run."""
    share, world, config = run.learner.share, run.world, run.config
    total, trained = num_parameters(run)
    return {
        "job_name": job_name_of(config),
        "resumed_at": run.start.step,
        "versions": software_versions(),
        "hardware": hardware(),
        "dataset": {
            "root": ", ".join(str(part.root) for part in parts_of(data.source)),
            "fingerprint": data.source.fingerprint,
            "num_episodes": data.source.num_episodes,
            "num_frames": data.source.num_frames,
            "fps": data.source.fps,
            "left_out": data.left_out,
        },
        "policy": {
            "type": run.learner.policy.config.type,
            "num_parameters": total,
            "num_trainable": trained,
        },
        "batch": {
            "per_process": config.batch_size,
            "processes": world.size,
            "accumulation": share.samples_per_rank // config.batch_size,
            "effective": share.samples_per_step,
            "steps_per_epoch": data.order.num_samples / share.samples_per_step,
        },
        "precision": precision_in_use(world),
        "ranks": [vars(seat) for seat in world.seats],
        "config": encode(config),
    }


def batch_norm_notes(network: nn.Module, num_seen: int, num_parts: int) -> list[str]:
    """What must be said of batch norm, to which micro-batches of all ranks are not one batch."""
    trains_norm = any(name.endswith("num_batches_tracked") for name in network.state_dict())
    if num_parts == 1 or not trains_norm:
        return []
    return [
        f"NOTE: batch norm sees each micro-batch of {num_seen} samples by itself; the run differs "
        f"from one whose updates take {num_seen * num_parts} samples at once"
    ]


def datasets_told(data: TrainingData) -> list[str]:
    """What is learned from, and what is held out."""
    lines = [
        f"Dataset: {part.num_episodes} episodes, {part.num_frames:,} frames, {part.fps:g} fps"
        f" in {part.root}"
        for part in parts_of(data.source)
    ]
    if isinstance(data.order, MixedOrder):
        shares = data.order.counts / data.order.counts.sum()
        lines = [
            f"{line}: {share:.1%} of samples" for line, share in zip(lines, shares, strict=True)
        ]
    if data.held_out is not None:
        held = data.held_out
        lines.append(f"Held out: {held.num_episodes} episodes, {held.num_frames:,} frames")
    return lines


def parts_of(source: Dataset | Mixture) -> list[Dataset]:
    """The datasets that samples come from."""
    return source.parts if isinstance(source, Mixture) else [source]


def num_parameters(run: Run) -> tuple[int, int]:
    """Weights in all, and those that training changes."""
    parameters = list(run.learner.policy.network.parameters())
    trained = [each for each in parameters if each.requires_grad]
    return sum(each.numel() for each in parameters), sum(each.numel() for each in trained)


def precision_in_use(world: World) -> str:
    """The precision matrix products really have, found by making one."""
    probe = torch.ones(8, 8, device=world.device)
    with world.accelerator.autocast():
        product = (probe @ probe).dtype
    strict = ", deterministic kernels" if torch.backends.cudnn.deterministic else ""
    if product != torch.float32:
        kind = str(product).removeprefix("torch.")
        return f"{kind} autocast, weights and optimizer in float32{strict}"
    tf32 = world.device.type == "cuda" and torch.get_float32_matmul_precision() != "highest"
    return f"float32{' with TF32 products' if tf32 else ''}{strict}"
