"""What is trained in the soak test: one table, with the flags of every recipe."""

from dataclasses import dataclass
from pathlib import Path

from run_dataset import Recording
from run_flags import SMOLVLA

from manyhands_bench.resume.cases import POLICIES

ENDLESS = 1_000_000
LOG_EVERY = 10
COMMON = (
    f"--steps={ENDLESS}",
    f"--log_freq={LOG_EVERY}",
    "--save_freq=0",
    "--keep_last=2",
    "--num_workers=2",
    "--launch.num_processes=1",
)
SWITCH = ("--step.compile_min_left_s=0",)
"""The mode is the default one, auto; this makes every run try the compiled step."""
RANDOM_ENCODER = ("--policy.pretrained_backbone_weights=null",)
ACT = ("--policy.type=act", *RANDOM_ENCODER)
DIFFUSION = (
    "--policy.type=diffusion",
    "--policy.horizon=16",
    "--policy.n_action_steps=8",
    *RANDOM_ENCODER,
)


def recording(num_cameras: int, size: tuple[int, int], num_values: int = 14) -> Recording:
    """Frames with cameras of one size, and as many joints as actions."""
    cameras = {f"observation.images.camera_{number}": size for number in range(num_cameras)}
    sizes = {"observation.state": num_values, "action": num_values}
    return Recording(sizes, cameras, episode_length=30, block=4)


@dataclass(frozen=True)
class Recipe:
    """A run, and the data that it needs."""

    name: str
    flags: tuple[str, ...]
    recording: Recording | None
    """Synthetic data; None where the flags name a dataset."""
    num_datasets: int = 1
    """Two make a mixture."""
    save_freq: int = 500
    """Steps between two checkpoints in the run that is killed."""
    base: tuple[str, ...] = ()
    """Flags of a policy that is trained for one step, to start from."""
    needs_vlm: bool = False
    common: tuple[str, ...] = (*COMMON, *SWITCH)
    log_every: int = LOG_EVERY


RECIPES = (
    Recipe(
        "diffusion-crop",
        (
            *DIFFUSION,
            "--policy.crop_shape=[84,84]",
            "--policy.use_group_norm=true",
            "--ema.enable=true",
            "--batch_size=64",
        ),
        recording(1, (96, 96), 2),
        save_freq=250,
    ),
    Recipe("act-1-camera", (*ACT, "--batch_size=8"), recording(1, (480, 640))),
    Recipe(
        "diffusion-batch-norm",
        (*DIFFUSION, "--policy.use_group_norm=false", "--batch_size=64"),
        recording(1, (96, 96), 2),
        save_freq=250,
    ),
    Recipe("act-3-cameras", (*ACT, "--batch_size=64"), recording(3, (120, 160)), save_freq=250),
    Recipe("smolvla", (*SMOLVLA, "--batch_size=8"), recording(1, (32, 32), 4), needs_vlm=True),
    Recipe(
        "act-augmented",
        (
            *ACT,
            "--batch_size=8",
            "--global_batch_size=32",
            "--dataset.image_transforms.enable=true",
        ),
        recording(1, (120, 160)),
        save_freq=150,
    ),
    Recipe(
        "smolvla-lora",
        (
            "--peft.method_type=LORA",
            "--peft.r=16",
            "--policy.optimizer_lr=1e-3",
            "--policy.scheduler_decay_lr=1e-4",
            "--batch_size=8",
        ),
        recording(1, (32, 32), 4),
        base=SMOLVLA,
        needs_vlm=True,
    ),
    Recipe("act-mixture", (*ACT, "--batch_size=8"), recording(1, (120, 160)), num_datasets=2),
)
"""Cameras of 480x640 with 1 camera; 120x160 with 3, with augmentation and in the mixture."""

CPU_RECIPE = Recipe(
    "cpu",
    (*POLICIES["act"], "--batch_size=4", "--num_workers=1"),
    Recording({"observation.state": 3, "observation.environment_state": 4, "action": 2}),
    save_freq=20,
)
"""Shows on a CPU that the soak test itself is right; nothing is compiled there."""


def long_recipe(dataset: Path) -> Recipe:
    """The published configuration for PushT on a dataset."""
    published = (
        f"--dataset.root={dataset}",
        *DIFFUSION,
        "--policy.crop_shape=[84,84]",
        "--policy.use_group_norm=true",
        "--batch_size=256",
        "--optimizer.lr=2e-4",
        "--ema.enable=true",
    )
    # More steps than a GPU takes in the minutes of a run, so that resumed ones train too.
    common = (f"--steps={ENDLESS}", f"--log_freq={2 * LOG_EVERY}", "--launch.num_processes=1")
    return Recipe("long-run", published, None, common=common, log_every=2 * LOG_EVERY)
