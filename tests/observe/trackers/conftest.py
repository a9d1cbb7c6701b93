"""Runs for trackers, in processes of their own."""

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from manyhands.config.resolve import read_train_config
from manyhands.observe.trackers.tracked_run import TrackedRun

DEADLINE_S = 120


@pytest.fixture
def tracked_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., TrackedRun]:
    """A run of batches of 4 on 2 episodes of 10 frames, with more flags."""
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    run_dir = tmp_path / "run"
    run_dir.mkdir()

    def build(*flags: str, start_step: int = 0) -> TrackedRun:
        argv = ["--dataset.repo_id=me/pick", "--policy.type=act", "--seed=7", *flags]
        return TrackedRun(
            run_dir=run_dir,
            eval_dir=run_dir / "eval",
            job_name="pick",
            config=read_train_config(argv),
            start_step=start_step,
            start_samples=4 * start_step,
            samples_per_step=4,
            num_frames=20,
            num_episodes=2,
        )

    return build


@pytest.fixture
def in_new_process() -> Callable[..., str]:
    """Runs a program with an object on its input; trackers have one run in a process."""
    next_second = 0

    def run(program: str, given: object) -> str:
        nonlocal next_second
        # wandb names a folder by the second, and writes anew one that there is.
        time.sleep(max(0.0, next_second - time.time()))
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=pickle.dumps(given),
            capture_output=True,
            timeout=DEADLINE_S,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            check=False,
        )
        next_second = int(time.time()) + 1
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    return run
