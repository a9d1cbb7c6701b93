"""Trackers get what LeRobot gives to wandb, under the same names, and ours beside it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from policy_cases import save_theirs
from programs import MANYHANDS_TRAIN, run_program
from pusht_cases import CAMERA, CASES, STATE

from manyhands.data.writing.writer import DatasetWriter
from manyhands.observe.trackers.wandb_file import (
    read_artifacts,
    read_history,
    read_records,
    run_files,
)

STEPS = {"steps": 2, "batch_size": 2, "log_freq": 1, "save_freq": 2, "eval_steps": 2}
STEPS |= {"env_eval_freq": 2, "env.episode_length": 8}
OURS = {"env.type": "pusht", "eval.n_episodes": 1, "eval.batch_size": 1}
OURS |= {"eval.use_async_envs": "false", "dataset.eval_split": 0.5, "num_workers": 0}
OURS |= {"wandb.enable": "true", "wandb.mode": "offline", "wandb.run_id": "abc"}
OURS |= {"wandb.project": "arm", "wandb.notes": "a note", "policy.device": "cpu"}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two episodes with the features of PushT."""
    root = tmp_path_factory.mktemp("tracking") / "dataset"
    vector = {"dtype": "float32", "shape": (2,), "names": None}
    camera = {"dtype": "image", "shape": (96, 96, 3), "names": ["height", "width", "channels"]}
    draw = np.random.default_rng(0)
    features = {CAMERA: camera, STATE: vector, "action": vector}
    with DatasetWriter.create(root, 10, features) as writer:
        for _ in range(2):
            for _ in range(12):
                frame: dict[str, Any] = {CAMERA: draw.integers(0, 256, (96, 96, 3), np.uint8)}
                frame |= {
                    name: draw.uniform(100, 400, 2).astype("f4") for name in (STATE, "action")
                }
                writer.add_frame({**frame, "task": "push"})
            writer.save_episode()
    return root


@pytest.fixture(scope="module", params=["ACT", "Diffusion"])
def both(
    request: pytest.FixtureRequest, dataset: Path, lerobot: Any
) -> tuple[Path, dict[str, Any]]:
    """A run of ours, and what LeRobot logged of the same."""
    folder = dataset.with_name(request.param)
    folder.mkdir()
    save_theirs(CASES[request.param], folder / "start", lerobot)
    run_dir = folder / "ours"
    places = {"policy.path": folder / "start", "dataset.root": dataset, "output_dir": run_dir}
    run_program(MANYHANDS_TRAIN, places | STEPS | OURS)
    there = {"start": folder / "start", "root": dataset, "run": folder / "theirs"}
    return run_dir, lerobot("track", **there, flags=STEPS)


def test_every_metric_of_lerobot_is_logged_under_its_name(both):
    run_dir, theirs = both
    (file,) = run_files(run_dir / "wandb", "abc")
    ours = {name for row in read_history(file) for name in row}
    assert {"train/loss", "eval/eval_loss", "eval/pc_success", "eval/video"} <= {*theirs["keys"]}
    assert {*theirs["keys"]} <= ours
    prefixes = {name.partition("/")[0] for name in ours if not name.startswith("_")}
    assert prefixes == {"train", "eval"}


def test_settings_and_artifacts_are_those_of_lerobot(both):
    run_dir, theirs = both
    (file,) = run_files(run_dir / "wandb", "abc")
    (run,) = [record.run for record in read_records(file) if record.HasField("run")]
    there = theirs["settings"]
    assert (run.project, run.notes, run.job_type) == (
        there["project"],
        there["notes"],
        there["job_type"],
    )
    kinds = [[tag.partition(":")[0] for tag in tags] for tags in (run.tags, there["tags"])]
    assert kinds[0] == kinds[1]
    names = [
        [name.rpartition("-")[2] for name in found]
        for found in (read_artifacts(file), theirs["artifacts"])
    ]
    assert names[0] == names[1] == ["000002"]
    assert [*theirs["artifacts"].values()] == [["model.safetensors"]]
