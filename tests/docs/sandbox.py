"""A folder with everything that documented commands name, small enough for a CPU."""

import json
import os
import runpy
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cpu_form import POLICY_SIZES, STAGED_STEPS
from stand_ins import BIN, LOG, ROOT, SITE, write_programs

from manyhands.cli.eval import eval_command
from manyhands.config.resolve import read_train_config
from manyhands.data.writing.writer import DatasetWriter
from manyhands.training.start import run_training

DEADLINE_S = 600
LINKED = ("accelerate_config_*.yaml", "configs", "examples", "fsdp.yaml", "my_config_file.yaml")
LINKED += ("recipes", "scripts", "train.py", "tests", "pyproject.toml", "Makefile")
NAMES = ("me/pick", "me/my_dataset", "your-username/your-dataset")
"""Datasets in the cache of LeRobot, all of them the one in data/pick."""
VECTORS = {"observation.state": 3, "observation.environment_state": 4, "action": 2}
TRAY = {"observation.state": 4, "observation.environment_state": 4, "action": 3}
PUSHT = {"observation.state": 2, "action": 2}
OF_A_JOB = {"SLURM_NNODES": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29517"}
"""Variables that commands within a SLURM job read."""
NO_CAMERA = json.dumps(
    {
        "observation.state": {"type": "STATE", "shape": [3]},
        "observation.environment_state": {"type": "ENV", "shape": [4]},
    }
)
ON_CPU = ("--policy.device=cpu", "--num_workers=0", "--batch_size=2", "--cache.mode=off")
ACT, DIFFUSION = (
    (f"--policy.type={kind}", *(f"--policy.{name}={of}" for name, of in POLICY_SIZES[kind].items()))
    for kind in ("act", "diffusion")
)


def record(
    root: Path, sizes: Mapping[str, int], camera: tuple[str, int] | None, length: int
) -> None:
    """Record ten episodes of noise with these vectors, and a camera."""
    features: dict[str, Any] = {
        name: {"dtype": "float32", "shape": (size,), "names": None} for name, size in sizes.items()
    }
    if camera:
        shape = (camera[1], camera[1], 3)
        names = ["height", "width", "channels"]
        features[camera[0]] = {"dtype": "video", "shape": shape, "names": names}
    draw = np.random.default_rng(0)
    with DatasetWriter.create(root, 10, features) as writer:
        for _ in range(10):
            for _ in range(length):
                frame: dict[str, Any] = {
                    name: draw.normal(size=size).astype("f4") for name, size in sizes.items()
                }
                if camera:
                    frame[camera[0]] = draw.integers(0, 256, shape, dtype=np.uint8)
                writer.add_frame({**frame, "task": "pick up the cube"})
            writer.save_episode()


def train(*flags: str) -> None:
    """Train in this process."""
    run_training(read_train_config([*flags, *ON_CPU]))


def build_template(folder: Path, smolvla: Sequence[str]) -> None:
    """Write the datasets, runs and policies into a folder that has a vision-language model."""
    record(folder / "data/pick", VECTORS, ("observation.images.top", 32), 8)
    record(folder / "data/pusht", PUSHT, ("observation.image", 96), 40)
    record(folder / "data/tray_states", TRAY, None, 8)
    for name in ("place", "a", "b"):
        shutil.copytree(folder / "data/pick", folder / "data" / name)
    version_2 = runpy.run_path(str(ROOT / "tests/data/conftest.py"))["write_version_2"]
    version_2(folder / "data/pick", folder / "data/old")
    build_sources(folder / "data")
    build_runs(folder, smolvla)


def build_sources(data: Path) -> None:
    """Write datasets of other formats, and a damaged one."""
    formats = runpy.run_path(str(ROOT / "tests/data/importing/conftest.py"))
    episodes = formats["make_episodes"]()
    for name in ("robomimic", "zarr", "csv"):
        formats[f"write_{name}"](data, episodes)
    for name, folder in (("aloha", data / "aloha"), ("rlds", data / "bridge")):
        folder.mkdir()
        formats[f"write_{name}"](folder, episodes)
    shutil.copytree(data / "pick", data / "damaged")
    (data / "damaged/videos").rename(data / "damaged/video")


def build_runs(folder: Path, smolvla: Sequence[str]) -> None:
    """Train the runs that commands resume, evaluate and report."""
    runs = folder / "outputs"
    long = (f"--steps={STAGED_STEPS}", "--save_freq=100", "--log_freq=10")
    no_camera = f"--policy.input_features={NO_CAMERA}"
    own = (f"--dataset.root={folder / 'data/pick'}", f"--output_dir={runs / 'pick'}")
    train(*own, *ACT, no_camera, *long)
    shutil.copytree(runs / "pick", runs / "place", symlinks=True)
    for name, data, policy in (
        ("pusht", "pusht", ACT),
        ("diffusion_pusht", "pusht", DIFFUSION),
        ("tray", "tray_states", ACT),
    ):
        own = (f"--dataset.root={folder / 'data' / data}", f"--output_dir={runs / name}")
        train(*own, *policy, "--steps=1")
    for name in ("a", "b"):
        (runs / name).symlink_to("pusht")
    own = (f"--dataset.root={folder / 'data/pick'}", f"--output_dir={folder / 'smolvla'}")
    train(*own, *smolvla, f"--policy.vlm_model_name={folder / 'tiny_vlm'}", "--steps=1")
    episodes = ("--env.type=pusht", "--env.episode_length=4", "--eval.n_episodes=2")
    (runs / "eval").mkdir()
    results = (f"--output_dir={runs / 'eval/a'}", f"--json={runs / 'eval/b.json'}")
    eval_command([f"--policy.path={runs / 'pusht'}", "--policy.device=cpu", *episodes, *results])


def published(template: Path) -> dict[str, bytes]:
    """The files of the policy that the Hub has under the name lerobot/smolvla_base."""
    folder = template / "smolvla/checkpoints/last/pretrained_model"
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@dataclass(frozen=True)
class Sandbox:
    """The current folder of a page's commands, made from a template."""

    folder: Path
    template: Path
    hub: Mapping[str, str]
    """Variables of a Hub on this machine."""

    @classmethod
    def make(cls, folder: Path, template: Path, hub: Mapping[str, str]) -> "Sandbox":
        """Copy the template, and link the files of the repository that pages name."""
        shutil.copytree(template / "data", folder / "data")
        for pattern in LINKED:
            for file in ROOT.glob(pattern):
                (folder / file.name).symlink_to(file)
        (folder / "tiny_vlm").symlink_to(template / "tiny_vlm")
        (folder / "runs").symlink_to("outputs")
        (folder / "cache/lerobot").mkdir(parents=True)
        (folder / "cache/lerobot/pusht").symlink_to(folder / "data/pusht")
        for name in NAMES:
            (folder / "cache" / name).parent.mkdir(exist_ok=True)
            (folder / "cache" / name).symlink_to(folder / "data/pick")
        (folder / "pick.yaml").write_text("{dataset: {root: data/pick}, policy: {type: act}}")
        write_programs(folder / "bin")
        return cls(folder, template, hub)

    def restore(self) -> None:
        """Put the runs back as they were: a block may have continued or replaced them."""
        shutil.rmtree(self.folder / "outputs", ignore_errors=True)
        if self.template.is_dir():
            shutil.copytree(self.template / "outputs", self.folder / "outputs", symlinks=True)

    def run(self, language: str, text: str) -> tuple[int, str, list[dict[str, Any]]]:
        """Run a block; return its exit code, what it printed, and its commands."""
        log = self.folder / "commands.jsonl"
        log.write_text("")
        if language == "python":
            (self.folder / "block.py").write_text(text, encoding="utf-8")
            text = "python block.py"
        done = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder,
            env=self.environ() | {LOG: str(log)} | (OF_A_JOB if "$MASTER_ADDR" in text else {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        rows = [json.loads(row) for row in log.read_text().splitlines()]
        return done.returncode, done.stdout, rows

    def environ(self) -> dict[str, str]:
        """Variables of every command."""
        return {
            **{name: value for name, value in os.environ.items() if name != "RANK"},
            **self.hub,
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{self.folder / SITE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            "HF_USER": "me",
            "HF_LEROBOT_HOME": str(self.folder / "cache"),
            "MANYHANDS_HOME": str(self.folder / "home"),
            "OMP_NUM_THREADS": "1",
            "WANDB_MODE": "offline",
        }


def as_commands(language: str, text: str) -> str:
    """The commands of a block; of a diff those it adds."""
    if language != "diff":
        return text
    lines = [line[1:] for line in text.splitlines() if not line.startswith("-")]
    return "\n".join(lines)
