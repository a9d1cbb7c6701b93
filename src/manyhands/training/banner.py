"""The proof at start: what runs where, in which precision, and the arithmetic of the batch."""

from typing import Any

import torch

from manyhands import units
from manyhands.config.resolve import job_name_of
from manyhands.config.schema import encode
from manyhands.data.dataset import Dataset
from manyhands.observe.machine import hardware, software_versions
from manyhands.parallel.world import World
from manyhands.training.run import Run


def banner_of(run: Run, dataset: Dataset, num_samples: int) -> list[str]:
    """The lines a run opens with."""
    share, world, config = run.learner.share, run.world, run.config
    per_step = share.samples_per_step
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
        f"Dataset: {dataset.num_episodes} episodes, {dataset.num_frames:,} frames, "
        f"{dataset.fps:g} fps",
        f"Steps: {config.steps:,} updates = {config.steps * per_step:,} samples = "
        f"{epochs:.2f} epochs; {num_samples / per_step:,.1f} steps per epoch",
        f"Parameters: {units.count(total)}, {units.count(trained)} trained",
        f"Precision: {precision_in_use(world)}",
        "Learning rate and steps are as given, not scaled with the number of processes",
        *(f"  rank {seat.rank} -> {seat.host} {seat.device} ({seat.name})" for seat in world.seats),
    ]


def facts_of(run: Run, dataset: Dataset, num_samples: int) -> dict[str, Any]:
    """What `run.json` keeps of a run."""
    share, world, config = run.learner.share, run.world, run.config
    total, trained = num_parameters(run)
    return {
        "job_name": job_name_of(config),
        "resumed_at": run.start.step,
        "versions": software_versions(),
        "hardware": hardware(),
        "dataset": {
            "root": str(dataset.root),
            "fingerprint": dataset.fingerprint,
            "num_episodes": dataset.num_episodes,
            "num_frames": dataset.num_frames,
            "fps": dataset.fps,
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
            "steps_per_epoch": num_samples / share.samples_per_step,
        },
        "precision": precision_in_use(world),
        "ranks": [vars(seat) for seat in world.seats],
        "config": encode(config),
    }


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
