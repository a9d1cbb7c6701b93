"""What the demo trains, chosen by what this machine can do in a few minutes.

A GPU learns from the camera. Two plain CPU cores need minutes for a few thousand images, so there
the policy reads the object's pose instead; the camera is recorded all the same.
"""

from dataclasses import dataclass
from pathlib import Path

from manyhands.config.demo import DemoConfig
from manyhands.config.optim import AdamWConfig, DiffuserSchedulerConfig
from manyhands.config.policy import ActConfig
from manyhands.config.train import DatasetConfig, LaunchConfig, TrainConfig
from manyhands.lerobot_format.dataset_info import parse_features
from manyhands.lerobot_format.features import policy_features
from manyhands.sim.task import CAMERA, ENVIRONMENT_STATE, STATE, features

LEARNING_RATE = 2e-3


@dataclass(frozen=True)
class Recipe:
    """How much to record, and what to train on it."""

    inputs: str
    """What the policy reads, in words."""
    num_episodes: int
    frame_size: int
    num_processes: int
    steps: int
    batch_size: int
    """Samples per update, over all processes."""
    reads_camera: bool


def choose_recipe(config: DemoConfig, num_gpus: int) -> Recipe:
    """The recipe for this machine."""
    asked = config.launch.num_processes
    if config.fast:
        return Recipe("gripper and object poses", 4, 32, asked or 2, 4, 8, reads_camera=False)
    if num_gpus > 0:
        inputs = "the camera and the gripper's own state"
        return Recipe(inputs, 200, 96, asked or num_gpus, 3000, 64, reads_camera=True)
    inputs = "the gripper's own state and the poses of block and tray"
    return Recipe(inputs, 100, 96, asked or 2, 1500, 64, reads_camera=False)


def train_config_of(
    recipe: Recipe, config: DemoConfig, dataset: Path, run_dir: Path
) -> TrainConfig:
    """The run that `manyhands train` would make with the same flags."""
    return TrainConfig(
        dataset=DatasetConfig(root=dataset),
        policy=_policy_of(recipe),
        output_dir=run_dir,
        job_name="demo",
        seed=config.seed,
        steps=recipe.steps,
        batch_size=max(1, recipe.batch_size // recipe.num_processes),
        log_freq=max(1, recipe.steps // 30),
        save_freq=0,
        optimizer=AdamWConfig(lr=LEARNING_RATE, weight_decay=1e-4),
        scheduler=DiffuserSchedulerConfig(num_warmup_steps=min(50, recipe.steps // 2)),
        launch=LaunchConfig(num_processes=recipe.num_processes),
    )


def _policy_of(recipe: Recipe) -> ActConfig:
    offered, _ = policy_features(parse_features(features(recipe.frame_size)))
    read = (STATE, CAMERA if recipe.reads_camera else ENVIRONMENT_STATE)
    return ActConfig(
        input_features={name: offered[name] for name in read},
        chunk_size=20,
        n_action_steps=10,
        pretrained_backbone_weights=None,
        dim_model=64,
        n_heads=4,
        dim_feedforward=256,
        n_encoder_layers=2,
        use_vae=False,
        dropout=0.0,
    )
