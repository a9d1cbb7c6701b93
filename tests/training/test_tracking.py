"""Trackers hold every step of a run once, however it ended, and never stand in its way."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

NAMES = [name for name in ("tensorboard", "wandb", "trackio") if find_spec(name)]
NEEDS = "pip install 'manyhands[track]'"
OFFLINE = "--wandb.mode=offline"
STEPS = ("--batch_size=2", "--log_freq=1", "--save_freq=40", "--resume=auto")


def enabled(names: list[str]) -> list[str]:
    return [OFFLINE, *(f"--{name}.enable=true" for name in names)]


def log_of(run_dir: Path) -> str:
    return (run_dir / "log.txt").read_text()


@pytest.mark.process
@pytest.mark.skipif(not NAMES, reason=NEEDS)
def test_a_run_that_is_killed_and_resumed_is_one_run_without_gap_or_repeated_step(
    start_job, metrics, tracked_values, tmp_path
):
    run_dir = tmp_path / "run"
    job = start_job(run_dir, 4, *STEPS, *enabled(NAMES), "--steps=1000000")
    notes = [run_dir / "trackers" / f"{name}.json" for name in NAMES]
    job.wait_until(lambda: all("folder" in read(each) or "name" in read(each) for each in notes))
    job.wait_for_updates(job.last_step() + 100)
    for process in (job.launcher, *job.processes):
        process.kill()
    job.launcher.wait()
    killed_at = job.last_step()
    last = killed_at + 5
    job = start_job(run_dir, 4, *STEPS, *enabled(NAMES), f"--steps={last}")
    assert job.end()[0] == 0, job.printed()

    rows = metrics(run_dir)
    assert json.loads((run_dir / "run.json").read_text())["resumed_at"] < killed_at
    assert [*rows] == [*range(1, last + 1)]
    for name in NAMES:
        steps = tracked_values(name, run_dir, "train/steps")
        assert [step for step, _ in steps] == [value for _, value in steps] == [*rows], name
        losses = [value for _, value in tracked_values(name, run_dir, "train/loss")]
        assert losses == pytest.approx([row["loss"] for row in rows.values()], rel=1e-6), name


def read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text()) if file.exists() else {}
