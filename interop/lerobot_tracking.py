"""LeRobot's training as its tracker sees it: names of metrics, settings and artifacts."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from lerobot.configs.default import DatasetConfig, EvalConfig, WandBConfig
from lerobot.configs.policies import PreTrainedConfig
from lerobot.configs.train import TrainPipelineConfig
from lerobot.envs.configs import PushtEnv
from lerobot.scripts.lerobot_train import train
from lerobot_data import BACKEND, NAME


class Recorder(ModuleType):
    """Stands for wandb, which LeRobot calls but does not need, and notes what it is given."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.keys: set[str] = set()
        self.settings: dict[str, Any] = {}
        self.artifacts: dict[str, list[str]] = {}
        self.run = self
        self.id = "abc"

    def init(self, **settings: Any) -> None:
        self.settings = settings

    def get_url(self) -> str:
        return ""

    def log(self, data: dict[str, Any], step: int) -> None:
        self.keys |= data.keys()

    def Video(self, path: str, **_: Any) -> str:  # noqa: N802
        return path

    def Artifact(self, name: str, type: str) -> "Artifact":  # noqa: N802
        return Artifact(name)

    def log_artifact(self, artifact: "Artifact") -> None:
        self.artifacts[artifact.name] = artifact.files


class Artifact:
    """The files of an artifact."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: list[str] = []

    def add_file(self, path: Path) -> None:
        self.files.append(Path(path).name)


def track(start: str, root: str, run: str, flags: dict[str, Any]) -> dict[str, Any]:
    """Train from a policy's folder with all that is logged, and return what was."""
    recorder = Recorder()
    sys.modules["wandb"] = recorder
    policy = PreTrainedConfig.from_pretrained(start)
    policy.pretrained_path, policy.push_to_hub, policy.device = Path(start), False, "cpu"
    dataset = DatasetConfig(repo_id=NAME, root=root, video_backend=BACKEND, eval_split=0.5)
    config = TrainPipelineConfig(
        dataset=dataset,
        policy=policy,
        env=PushtEnv(episode_length=flags.pop("env.episode_length")),
        eval=EvalConfig(n_episodes=1, batch_size=1, use_async_envs=False),
        wandb=WandBConfig(enable=True, project="arm", notes="a note"),
        output_dir=Path(run),
        num_workers=0,
        **flags,
    )
    train(config)
    settings = {name: recorder.settings[name] for name in ("tags", "job_type", "notes", "project")}
    keys = sorted(recorder.keys)
    return {"keys": keys, "settings": settings, "artifacts": recorder.artifacts}
