"""Datasets and flags of runs, and processes to make them in."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "real_runs"))

from run_flags import SMOLVLA

from manyhands.data.writing.writer import DatasetWriter
from manyhands.observe.jsonl import read_rows
from manyhands_bench.resume.cases import POLICIES

CAMERA = "observation.images.top"
DEADLINE_S = 1800
"""Of processes; until tests ask for more time, that of pytest comes first."""
TRAIN = (sys.executable, "-m", "manyhands", "train")
BAD_ROW = 13
"""Frame 4 of episode 1 of the tiny dataset."""
START_S = 150
END_S = 60


@pytest.fixture(scope="session")
def camera_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One episode with a camera stored as images, and no environment state."""
    root = tmp_path_factory.mktemp("data") / "camera"
    features = {
        "observation.state": {"dtype": "float32", "shape": (3,), "names": None},
        "action": {"dtype": "float32", "shape": (2,), "names": None},
        CAMERA: {"dtype": "image", "shape": (32, 32, 3), "names": ["height", "width", "channels"]},
    }
    random = np.random.default_rng(0)
    with DatasetWriter.create(root, 10, features) as writer:
        for _ in range(6):
            vectors = {"observation.state": random.normal(size=3), "action": random.normal(size=2)}
            frame = {name: value.astype("f4") for name, value in vectors.items()}
            frame[CAMERA] = random.integers(0, 255, (32, 32, 3), dtype=np.uint8)
            writer.add_frame({**frame, "task": "look"})
        writer.save_episode()
    return root


@pytest.fixture(scope="session")
def task_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two short episodes of two tasks with a camera."""
    root = tmp_path_factory.mktemp("data") / "tasks"
    features = {
        "observation.state": {"dtype": "float32", "shape": (4,), "names": None},
        CAMERA: {"dtype": "image", "shape": (24, 32, 3), "names": ["height", "width", "channels"]},
        "action": {"dtype": "float32", "shape": (3,), "names": None},
    }
    draw = np.random.default_rng(0)
    with DatasetWriter.create(root, 10, features) as writer:
        for task in ("pick up the cube", "stack"):
            for _ in range(8):
                frame = {
                    "observation.state": draw.normal(size=4).astype("f4"),
                    CAMERA: draw.integers(0, 256, (24, 32, 3), dtype=np.uint8),
                    "action": draw.normal(size=3).astype("f4"),
                }
                writer.add_frame({**frame, "task": task})
            writer.save_episode()
    return root


TRAY_SIZES = {"observation.state": 4, "observation.environment_state": 4, "action": 3}


@pytest.fixture(scope="session")
def tray_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings with the features of the built-in task, but of noise."""
    root = tmp_path_factory.mktemp("data") / "tray"
    features = {
        name: {"dtype": "float32", "shape": (size,), "names": None}
        for name, size in TRAY_SIZES.items()
    }
    draw = np.random.default_rng(0)
    with DatasetWriter.create(root, 10, features) as writer:
        for _ in range(2):
            for _ in range(9):
                frame = {name: draw.normal(size=size) for name, size in TRAY_SIZES.items()}
                values = {name: value.astype("f4") for name, value in frame.items()}
                writer.add_frame({**values, "task": "move"})
            writer.save_episode()
    return root


@pytest.fixture
def tray_argv(tray_dataset: Path, tiny_act: tuple[str, ...]) -> Any:
    """Flags of a tiny run that the built-in task can evaluate."""

    def flags(run_dir: Path, *own: str) -> list[str]:
        return [f"--dataset.root={tray_dataset}", *tiny_act, f"--output_dir={run_dir}", *own]

    return flags


@pytest.fixture(scope="session")
def tiny_smolvla(tiny_vlm: Path) -> tuple[str, ...]:
    """Flags of a SmolVLA as small as one can be."""
    return (*SMOLVLA, f"--policy.vlm_model_name={tiny_vlm}")


@pytest.fixture(scope="session")
def plant(tiny_dataset: Path) -> Any:
    """Copies the tiny dataset with one value of episode 1, frame 4 put to something else."""

    def planted(root: Path, feature: str, value: float) -> Path:
        shutil.copytree(tiny_dataset, root)
        (file,) = root.glob("data/*/*.parquet")
        table = pq.read_table(file)
        vectors = table[feature].to_pylist()
        vectors[BAD_ROW][1] = value
        place, field = table.schema.get_field_index(feature), table.schema.field(feature)
        pq.write_table(table.set_column(place, field, pa.array(vectors, field.type)), file)
        return root

    return planted


@pytest.fixture(scope="session")
def tiny_diffusion() -> tuple[str, ...]:
    """Flags of a Diffusion Policy without cameras that makes an update in milliseconds."""
    own = ("--policy.scheduler_warmup_steps=1", "--policy.device=cpu", "--num_workers=0")
    return (*POLICIES["diffusion"], *own)


GREEDY = """
import os
import torch
from mlp_policy.config import MlpConfig
from mlp_policy.network import MlpNetwork

class GreedyConfig(MlpConfig):
    type = "greedy"

class GreedyNetwork(MlpNetwork):
    def __init__(self, config):
        super().__init__(config)
        self.register_buffer("num_passes", torch.zeros(1))

    def forward(self, batch, draws):
        if len(batch["action"]) > int(os.environ.get("ROOM_" + os.environ.get("RANK", "0"), 4)):
            torch.empty(1 << 46)
        self.num_passes += 1
        (term,) = super().forward(batch, draws).values()
        return {"mse_loss": term._replace(total=term.total * (1 + torch.rand(())))}
"""
POINTS = "[manyhands.policies]\ngreedy = greedy:GreedyConfig\n"
POINTS += "[manyhands.networks]\ngreedy = greedy:GreedyNetwork\n"


@pytest.fixture
def greedy(tmp_path: Path, tiny_dataset: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Flags of a policy of another package, which needs more memory than there is.

    A rank has room for as many samples at a time as the variable ROOM_<rank> says, or 4.
    """
    package = tmp_path / "greedy-1.0.dist-info"
    package.mkdir()
    (tmp_path / "greedy.py").write_text(GREEDY)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: greedy\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(POINTS)
    example = Path(__file__).resolve().parents[2] / "examples" / "mlp_policy"
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{example}", prepend=os.pathsep)
    flags = [f"--dataset.root={tiny_dataset}", "--policy.type=greedy", "--policy.device=cpu"]
    return [*flags, "--num_workers=0", "--steps=4", "--log_freq=1", "--ema.enable=true"]


@pytest.fixture(scope="session")
def in_ranks(command: Any) -> Any:
    """Trains runs, each in its number of processes, to its exit code; see forked_ranks.py."""
    program = [sys.executable, str(Path(__file__).with_name("forked_ranks.py"))]

    def train(runs: list[tuple[Any, ...]]) -> None:
        lines = []
        for num_processes, run_dir, argv, *code in runs:
            run_dir.mkdir(parents=True, exist_ok=True)
            lines.append(json.dumps([num_processes, str(run_dir), argv, *(code or [0])]))
        command.run(program, given="\n".join(lines), deadline_s=DEADLINE_S)

    return train


class Job:
    """A run in processes of its own, while it goes on, and what it printed."""

    def __init__(self, argv: list[str], run_dir: Path) -> None:
        self.run_dir = run_dir
        self._log = run_dir.with_suffix(".log")
        environ = os.environ | {"OMP_NUM_THREADS": "1"}
        with self._log.open("a") as output:
            self._begin = output.tell()
            self.launcher = psutil.Popen(argv, stdout=output, stderr=output, env=environ)
        self.processes: list[psutil.Process] = []

    def printed(self) -> str:
        """What this run printed; earlier ones of the folder share the file."""
        return self._log.read_bytes()[self._begin :].decode()

    def wait_until(self, is_so: Callable[[], bool], within_s: float = START_S) -> None:
        """Wait for something while the run continues."""
        deadline = time.monotonic() + within_s
        while not is_so():
            assert self.launcher.poll() is None, self.printed()
            assert time.monotonic() < deadline, self.printed()
            time.sleep(0.02)

    def wait_for_updates(self, step: int = 3) -> None:
        """Wait until some updates are made, and note all processes that make them."""
        self.wait_until(lambda: self.last_step() >= step)
        self.processes = self.launcher.children(recursive=True)

    def last_step(self) -> int:
        """The last row so far; one that is being written is not looked at."""
        file = self.run_dir / "metrics.jsonl"
        rows = list(read_rows(file)) if file.exists() else []
        return rows[-1]["step"] if rows else 0

    def rank(self, number: int) -> psutil.Process:
        """The process of a rank."""
        # In the order in which they were started; a forked process has not its own variables there.
        children = self.launcher.children()
        return sorted(children, key=lambda each: (each.create_time(), each.pid))[number]

    def end(self) -> tuple[int, float]:
        """Wait for the end; the exit code, and seconds until no process was left."""
        start = time.monotonic()
        try:
            code = self.launcher.wait(END_S)
        except psutil.TimeoutExpired:
            raise AssertionError(f"it never ends:\n{self.printed()}") from None
        while any(is_alive(each) for each in self.processes):
            assert time.monotonic() - start < END_S, f"{self.processes}\n{self.printed()}"
            time.sleep(0.02)
        return code, time.monotonic() - start


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def start_job(command: Any) -> Any:
    """Starts `manyhands train` with a number of processes, and kills what a test leaves of it."""
    jobs: list[Job] = []

    def start(
        run_dir: Path, num_processes: int, *flags: str, program: Sequence[str] = TRAIN
    ) -> Job:
        own = command.argv(run_dir, f"--launch.num_processes={num_processes}", *flags)
        jobs.append(Job([*program, *own], run_dir))
        return jobs[-1]

    yield start
    for job in jobs:
        for process in [*job.processes, job.launcher]:
            if is_alive(process):
                process.kill()
