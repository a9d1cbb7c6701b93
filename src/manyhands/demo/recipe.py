"""The demo's training recipe, chosen to take a few minutes on this machine.

A GPU learns from the camera. Two plain CPU cores need minutes for a few thousand images, so there
the policy reads the object's pose instead; the camera is recorded anyway.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from manyhands.config.commands.demo import DemoConfig
from manyhands.config.policies.act import ActConfig
from manyhands.config.sections.optim import AdamWConfig, DiffuserSchedulerConfig
from manyhands.config.train import AcceleratorConfig, DatasetConfig, LaunchConfig, TrainConfig
from manyhands.lerobot_format.dataset.info import parse_features
from manyhands.lerobot_format.dataset.meta import policy_features
from manyhands.sim.tray.task import CAMERA, ENVIRONMENT_STATE, STATE, features

SMALL_ACT = ActConfig(
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
SEEING_ACT = replace(
    SMALL_ACT, dim_model=256, n_heads=8, dim_feedforward=1024, optimizer_lr_backbone=3e-4
)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How much to record, and how to train on it."""

    reads: tuple[str, ...]  # Features the policy learns from
    in_words: str  # The features in words
    policy: ActConfig
    num_episodes: int
    frame_size: int = 96
    num_processes: int
    steps: int
    batch_size: int = 64  # Samples per step, over all processes
    lr: float
    mixed_precision: str | None = None

    @property
    def reads_camera(self) -> bool:
        """Whether the policy reads images."""
        return CAMERA in self.reads


WITH_GPU = Recipe(
    reads=(STATE, CAMERA),
    in_words="camera and gripper state",
    policy=SEEING_ACT,
    num_episodes=250,
    num_processes=1,
    steps=4000,
    lr=3e-4,
    mixed_precision="bf16",
)
WITHOUT_GPU = Recipe(
    reads=(STATE, ENVIRONMENT_STATE),
    in_words="gripper state, block and tray poses",
    policy=SMALL_ACT,
    num_episodes=100,
    num_processes=2,
    steps=1500,
    lr=2e-3,
)


def choose_recipe(config: DemoConfig, num_gpus: int) -> Recipe:
    """The recipe for this machine, or its shortest form."""
    recipe = replace(WITH_GPU, num_processes=num_gpus) if num_gpus else WITHOUT_GPU
    if config.fast:
        recipe = replace(recipe, num_episodes=4, frame_size=32, steps=4, batch_size=8)
    return replace(recipe, num_processes=config.launch.num_processes or recipe.num_processes)


def train_config_of(recipe: Recipe, seed: int, dataset: Path, run_dir: Path) -> TrainConfig:
    """The run that `manyhands train` would make with the same flags."""
    offered, _ = policy_features(parse_features(features(recipe.frame_size)))
    inputs = {name: offered[name] for name in recipe.reads}
    return TrainConfig(
        dataset=DatasetConfig(root=dataset),
        policy=replace(recipe.policy, input_features=inputs),
        output_dir=run_dir,
        job_name="demo",
        seed=seed,
        steps=recipe.steps,
        batch_size=max(1, recipe.batch_size // recipe.num_processes),
        log_freq=max(1, recipe.steps // 30),
        save_freq=0,
        optimizer=AdamWConfig(lr=recipe.lr, weight_decay=1e-4),
        scheduler=DiffuserSchedulerConfig(num_warmup_steps=min(50, recipe.steps // 2)),
        accelerator=AcceleratorConfig(mixed_precision=recipe.mixed_precision),
        launch=LaunchConfig(num_processes=recipe.num_processes),
    )
