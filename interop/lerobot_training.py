"""LeRobot's training: its configuration files, and updates made by its own code."""

from pathlib import Path
from typing import Any

from accelerate import Accelerator
from given_draws import GivenDraws
from lerobot.configs.default import DatasetConfig, PeftConfig
from lerobot.configs.policies import PreTrainedConfig
from lerobot.configs.train import TrainPipelineConfig
from lerobot.datasets.factory import make_dataset
from lerobot.optim.factory import make_optimizer_and_scheduler
from lerobot.policies.factory import make_policy, make_pre_post_processors
from lerobot.scripts.lerobot_train import (
    get_step_checkpoint_dir,
    lerobot_collate_fn,
    load_training_state,
    save_checkpoint,
    update_last_checkpoint,
    update_policy,
)
from lerobot.utils.logging_utils import AverageMeter, MetricsTracker
from lerobot_data import BACKEND, NAME
from lerobot_policy import as_floats
from safetensors.torch import load_file
from torch import Tensor

MEASURES = ("loss", "grad_norm", "lr", "update_s")


def train(
    start: str, root: str, run: str, steps: int, rows: list[list[int]], draws: str
) -> dict[str, Any]:
    """Make some steps of a run of so many steps, and save a checkpoint after the last.

    It starts from a policy's folder, or resumes from a checkpoint. Each step uses the given rows of
    the dataset, and random numbers from a file, by `<step>/<number>`.
    """
    checkpoint = Path(start)
    is_resumed = (checkpoint / "training_state").is_dir()
    config = _train_config(checkpoint / "pretrained_model" if is_resumed else checkpoint, root)
    config.steps, config.batch_size, config.output_dir = steps, len(rows[0]), Path(run)
    learner = _Learner(config)
    step = 0
    if is_resumed:
        step, _, _ = load_training_state(checkpoint, learner.optimizer, learner.scheduler)
    drawn = load_file(draws)
    measured = [
        learner.update(each, [drawn[name] for name in _names_in(drawn, number)])
        for number, each in enumerate(rows)
    ]
    return {"measured": measured, "step": step, "checkpoint": learner.save(step + len(rows))}


def _names_in(drawn: dict[str, Tensor], step: int) -> list[str]:
    names = [name for name in drawn if name.startswith(f"{step}/")]
    return sorted(names, key=lambda name: int(name.partition("/")[2]))


class _Learner:
    """All that LeRobot's training makes from a configuration."""

    def __init__(self, config: TrainPipelineConfig) -> None:
        self._config = config
        self._dataset = make_dataset(config)
        self._policy = make_policy(config.policy, ds_meta=self._dataset.meta).train()
        self._processors = make_pre_post_processors(
            config.policy, dataset_stats=self._dataset.meta.stats
        )
        self.optimizer, self.scheduler = make_optimizer_and_scheduler(config, self._policy)
        self._accelerator = Accelerator(cpu=True)

    def update(self, rows: list[int], draws: list[Tensor]) -> dict[str, float]:
        """One training step, and what it measured."""
        batch = as_floats(lerobot_collate_fn([self._dataset[row] for row in rows]))
        preprocess, _ = self._processors
        lr = self.optimizer.param_groups[0]["lr"]
        tracker = MetricsTracker(len(rows), 1, 1, {name: AverageMeter(name) for name in MEASURES})
        prepared = preprocess(batch)
        with GivenDraws(draws):
            tracker, _ = update_policy(
                tracker,
                self._policy,
                prepared,
                self.optimizer,
                self._config.optimizer.grad_clip_norm,
                self._accelerator,
                self.scheduler,
            )
        return {"loss": tracker.loss.avg, "grad_norm": tracker.grad_norm.avg, "lr": lr}

    def save(self, step: int) -> str:
        """A checkpoint in the run's directory."""
        folder = get_step_checkpoint_dir(self._config.output_dir, self._config.steps, step)
        state = (self._policy, self.optimizer, self.scheduler, *self._processors)
        counts = {"num_processes": 1, "batch_size": self._config.batch_size}
        save_checkpoint(folder, step, self._config, *state, **counts)
        update_last_checkpoint(folder)
        return str(folder)


def read_train_config(folder: str) -> dict[str, Any]:
    """Read the configuration that a run stored with a checkpoint."""
    return TrainPipelineConfig.from_pretrained(folder).to_dict()


def _train_config(folder: Path, root: str) -> TrainPipelineConfig:
    policy = PreTrainedConfig.from_pretrained(folder)
    policy.pretrained_path = folder
    dataset = DatasetConfig(repo_id=NAME, root=root, video_backend=BACKEND)
    config = TrainPipelineConfig(dataset=dataset, policy=policy, num_workers=0)
    if policy.use_peft:
        # Without it a checkpoint of adapters lacks the policy's configuration.
        config.peft = PeftConfig()
    config.optimizer = policy.get_optimizer_preset()
    config.scheduler = policy.get_scheduler_preset()
    return config
