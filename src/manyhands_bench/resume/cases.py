"""Small runs of every policy with every strategy, and their dataset."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyhands.data.writing.writer import DatasetWriter

NUM_STEPS = 18
SAVE_EVERY = 3
SIZES = {"observation.state": 3, "observation.environment_state": 4, "action": 2}
EPISODE_LENGTHS = (9, 12, 7, 11)

COMMON = (
    f"--steps={NUM_STEPS}",
    f"--save_freq={SAVE_EVERY}",
    "--log_freq=1",
    "--global_batch_size=4",
    "--audit=true",
    "--policy.device=cpu",
    "--cache.mode=off",
)
ACT_SIZES = (
    "--policy.dim_model=16",
    "--policy.n_heads=2",
    "--policy.dim_feedforward=32",
    "--policy.n_encoder_layers=1",
    "--policy.n_vae_encoder_layers=1",
    "--policy.latent_dim=4",
    "--policy.chunk_size=6",
    "--policy.n_action_steps=6",
)
"""Flags that make any ACT tiny."""
POLICIES = {
    "act": ("--policy.type=act", *ACT_SIZES, "--policy.optimizer_lr=1e-3"),
    "diffusion": (
        "--policy.type=diffusion",
        "--policy.down_dims=[8, 16]",
        "--policy.horizon=8",
        "--policy.n_action_steps=4",
        "--policy.drop_n_last_frames=2",
        "--policy.diffusion_step_embed_dim=8",
        "--policy.num_train_timesteps=10",
        "--policy.scheduler_warmup_steps=5",
    ),
}
"""Flags of policies without cameras, with steps of milliseconds."""
STRATEGIES = {
    "single": (1, ("--launch.num_processes=1",)),
    "ddp": (2, ("--launch.num_processes=2",)),
    "fsdp": (2, ("--launch.num_processes=2", "--parallelism.dp_shard=2")),
}
OWN = {
    "act-single": ("--num_workers=1", "--keep_last=2"),
    "act-ddp": ("--num_workers=0", "--ema.enable=true"),
    "act-fsdp": ("--num_workers=0", "--ema.enable=true", "--keep_last=2"),
    "diffusion-single": (
        *("--num_workers=0", "--ema.enable=true", "--keep_last=1"),
        "--policy.noise_draws_per_sample=2",
    ),
    "diffusion-ddp": ("--num_workers=1", "--dataloader_multiprocessing_context=fork"),
    "diffusion-fsdp": ("--num_workers=0", "--checkpoint_format=dcp"),
}
"""Further flags, so that together the runs cover everything that is saved."""


@dataclass(frozen=True)
class Case:
    """One kind of run."""

    name: str
    num_ranks: int
    flags: tuple[str, ...]
    """All flags but dataset and output folder."""


def case_of(name: str) -> Case:
    """The case of a policy and a strategy, such as act-ddp."""
    policy, _, strategy = name.partition("-")
    num_ranks, spread = STRATEGIES[strategy]
    return Case(name, num_ranks, (*COMMON, *POLICIES[policy], *spread, *OWN[name]))


def record_dataset(root: Path) -> None:
    """Write a synthetic dataset: a few short episodes of small vectors."""
    features = {
        name: {"dtype": "float32", "shape": (size,), "names": None} for name, size in SIZES.items()
    }
    random = np.random.default_rng(0)
    with DatasetWriter.create(root, 10, features) as writer:
        for length in EPISODE_LENGTHS:
            for _ in range(length):
                frame = {name: random.normal(size=size) for name, size in SIZES.items()}
                values = {name: value.astype("f4") for name, value in frame.items()}
                writer.add_frame({**values, "task": "reach"})
            writer.save_episode()
