"""Simulated environments, by LeRobot's types and defaults."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

SMALLEST_PUSHT_FRAME = 96
"""gym-pusht cannot draw actions into smaller images."""
ALOHA_TASKS = ("AlohaInsertion-v0", "AlohaTransferCube-v0")


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Base config of an environment; `--env.type` selects the concrete class."""

    type: ClassVar[str]

    fps: int
    """Control frequency in Hz."""
    episode_length: int
    """Steps after which an episode ends without success."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        return [
            f"--env.{name}={getattr(self, name)} must be at least 1"
            for name in ("fps", "episode_length")
            if getattr(self, name) < 1
        ]


@dataclass(frozen=True, kw_only=True)
class TrayEnvConfig(EnvConfig):
    """The built-in task: a robot arm puts a block into a tray."""

    type: ClassVar[str] = "tray"

    fps: int = 10
    episode_length: int = 90


@dataclass(frozen=True, kw_only=True)
class PushtEnvConfig(EnvConfig):
    """PushT, from gym-pusht: push a T-shaped block onto its target."""

    type: ClassVar[str] = "pusht"

    task: str = "PushT-v0"
    """Task of gym-pusht."""
    fps: int = 10
    episode_length: int = 300
    visualization_width: int = 384
    """Width of images in videos."""
    visualization_height: int = 384
    """Height of images in videos."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        sizes = [
            f"--env.{name}={getattr(self, name)} must be at least {SMALLEST_PUSHT_FRAME}"
            for name in ("visualization_width", "visualization_height")
            if getattr(self, name) < SMALLEST_PUSHT_FRAME
        ]
        return [*super().faults(), *_unknown_task(self.task, ("PushT-v0",)), *sizes]


@dataclass(frozen=True, kw_only=True)
class AlohaEnvConfig(EnvConfig):
    """ALOHA with two arms, from gym-aloha."""

    type: ClassVar[str] = "aloha"

    task: str = "AlohaInsertion-v0"
    """AlohaInsertion-v0 or AlohaTransferCube-v0."""
    fps: int = 50
    episode_length: int = 400

    def faults(self) -> list[str]:
        """Return every invalid value."""
        return [*super().faults(), *_unknown_task(self.task, ALOHA_TASKS)]


@dataclass(frozen=True, kw_only=True)
class GymEnvConfig(EnvConfig):
    """Any environment registered with gymnasium."""

    type: ClassVar[str] = "gym"

    task: str | None = None
    """Registered id, as CartPole-v1."""
    package: str | None = None
    """Package to import, which registers the id; null: gymnasium alone."""
    fps: int = 30
    episode_length: int = 1000
    observation_keys: dict[str, str] = field(default_factory=dict)
    """Observation of the environment for each input of the policy; nested keys as pixels/top."""
    success_key: str | None = "is_success"
    """Entry of the environment's info that says whether the task is done; null: only rewards."""
    instruction: str = ""
    """Task text for policies that read language."""
    gym_kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments of gymnasium.make."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        unnamed = [] if self.task else ["--env.type=gym needs --env.task=<registered id>"]
        return [*super().faults(), *unnamed]


def _unknown_task(task: str, tasks: tuple[str, ...]) -> list[str]:
    return [] if task in tasks else [f"--env.task={task} is not one of {', '.join(tasks)}"]


ENV_TYPES: dict[str, type[EnvConfig]] = {
    config.type: config for config in (TrayEnvConfig, PushtEnvConfig, AlohaEnvConfig, GymEnvConfig)
}
