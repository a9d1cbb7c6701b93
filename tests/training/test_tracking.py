"""Trackers hold every step of a run once, however it ended, and never stand in its way."""

import json
import runpy
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from manyhands.config.resolve import read_train_config
from manyhands.errors import EnvironmentFault
from manyhands.launch.outcome import Ending
from manyhands.observe.trackers.notes import read_notes, write_notes
from manyhands.observe.trackers.tracked_run import TrackedRun
from manyhands.training import tracking
from manyhands.training.periods import Periods
from manyhands.training.start import run_training
from manyhands.training.tracking import PROGRAM, TrackerProcess

NAMES = [name for name in ("tensorboard", "wandb", "trackio") if find_spec(name)]
NEEDS = "pip install 'manyhands[track]'"
OFFLINE = "--wandb.mode=offline"
STEPS = ("--batch_size=2", "--log_freq=1", "--save_freq=40", "--resume=auto")


def enabled(names: list[str]) -> list[str]:
    return [OFFLINE, *(f"--{name}.enable=true" for name in names)]


def log_of(run_dir: Path) -> str:
    return (run_dir / "log.txt").read_text()


@pytest.mark.soak
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


@pytest.fixture
def train(command, tmp_path) -> Any:
    """Trains a tiny run in this process; returns its folder and seconds."""

    def run(*flags: str) -> tuple[Path, float]:
        run_dir = tmp_path / "run"
        start = time.monotonic()
        ending = run_training(read_train_config(command.argv(run_dir, *STEPS, *flags)))
        assert ending is Ending.FINISHED
        return run_dir, time.monotonic() - start

    return run


@pytest.mark.process
@pytest.mark.skipif("tensorboard" not in NAMES, reason=NEEDS)
def test_metrics_of_training_and_validation_arrive_and_the_run_is_noted(
    train, metrics, tracked_values
):
    flags = ("--dataset.eval_split=0.25", "--eval_steps=2", "--ema.enable=true")
    run_dir, _ = train(*enabled(["tensorboard"]), *flags, "--steps=4")
    rows = metrics(run_dir)
    losses = dict(tracked_values("tensorboard", run_dir, "eval/eval_loss"))
    assert losses == {
        step: pytest.approx(rows[step]["held_out_prediction_loss"]) for step in (2, 4)
    }
    samples = dict(tracked_values("tensorboard", run_dir, "train/samples"))
    assert samples == {step: 2 * step for step in (1, 2, 3, 4)}
    assert [*dict(tracked_values("tensorboard", run_dir, "train/ema/decay"))] == [*rows]
    facts = json.loads((run_dir / "run.json").read_text())["trackers"]
    assert facts == {"tensorboard": {"folder": str(run_dir / "tensorboard")}}


@pytest.mark.process
@pytest.mark.skipif("tensorboard" not in NAMES, reason=NEEDS)
def test_a_tracker_that_fails_is_reported_and_the_run_finishes(train, metrics, tmp_path):
    (tmp_path / "file").touch()
    run_dir, _ = train(
        *enabled(["tensorboard"]), f"--tensorboard.folder={tmp_path / 'file'}", "--steps=3"
    )
    assert [*metrics(run_dir)] == [1, 2, 3]
    (told,) = [line for line in log_of(run_dir).splitlines() if "WARNING" in line]
    assert "tensorboard failed with exit code 1" in told and "--resume logs the rest" in told
    assert str(run_dir / "trackers" / "tensorboard.log") in told


@pytest.mark.process
@pytest.mark.skipif("tensorboard" not in NAMES, reason=NEEDS)
def test_a_tracker_that_fails_starts_again_a_few_times(tmp_path, tracked_values, monkeypatch):
    monkeypatch.setattr(tracking, "RESTART_S", (0.1, 0.1))
    (tmp_path / "trackers").mkdir()
    (tmp_path / "tensorboard").touch()  # In the way of a folder.
    rows = [{"step": step, "loss": 1.0} for step in (1, 2)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    process = TrackerProcess("tensorboard", run_in(tmp_path), gpu=0)
    told: list[str] = []

    def wait_for(count: int) -> None:
        deadline = time.monotonic() + 60
        while len(told) < count and time.monotonic() < deadline:
            told.extend(process.messages())
            time.sleep(0.05)

    wait_for(1)
    (tmp_path / "tensorboard").unlink()
    while not process.is_running:
        told.extend(process.messages())
    process.close(0)
    while process.is_running:
        time.sleep(0.05)
    assert [*process.end()] == [] and len(told) == 1
    assert "failed with exit code 1" in told[0] and "It starts again in 0.1 s" in told[0]
    assert [step for step, _ in tracked_values("tensorboard", tmp_path, "train/loss")] == [1, 2]


@pytest.mark.process
@pytest.mark.skipif("tensorboard" not in NAMES, reason=NEEDS)
def test_a_tracker_that_always_fails_is_left_alone_at_last(tmp_path, monkeypatch):
    monkeypatch.setattr(tracking, "RESTART_S", (0.1,))
    (tmp_path / "trackers").mkdir()
    (tmp_path / "tensorboard").touch()
    process = TrackerProcess("tensorboard", run_in(tmp_path), gpu=0)
    told: list[str] = []
    deadline = time.monotonic() + 60
    while not any("--resume" in line for line in told) and time.monotonic() < deadline:
        told.extend(process.messages())
        time.sleep(0.05)
    assert len(told) == 2 and "--resume logs the rest" in told[1]
    assert [*process.messages(), *process.end()] == []


def run_in(run_dir: Path) -> TrackedRun:
    return TrackedRun(
        run_dir=run_dir,
        eval_dir=run_dir / "eval",
        job_name="pick",
        config=read_train_config(["--dataset.repo_id=me/pick", "--policy.type=act", "--steps=9"]),
        start_step=0,
        start_samples=0,
        samples_per_step=2,
        num_frames=10,
        num_episodes=1,
    )


@pytest.mark.process
@pytest.mark.skipif("tensorboard" not in NAMES, reason=NEEDS)
def test_a_tracker_that_cannot_be_started_is_reported_and_a_warning_is_not_repeated(
    train, metrics, monkeypatch, tmp_path
):
    def fail(*_: object, **__: object) -> None:
        raise OSError("no process is left")

    monkeypatch.setattr(tracking, "start_in_background", fail)
    write_notes(tmp_path / "run", "tensorboard", {"id": "abc", "warning": "of another day"})
    (tmp_path / "run" / "run.json").write_text("{}")
    run_dir, _ = train(*enabled(["tensorboard"]), "--steps=2")
    assert [*metrics(run_dir)] == [1, 2]
    assert "WARNING: tensorboard cannot be started: no process is left" in log_of(run_dir)
    assert read_notes(run_dir, "tensorboard") == {"id": "abc"}


@pytest.mark.process
@pytest.mark.skipif("wandb" not in NAMES, reason=NEEDS)
def test_a_tracker_that_hangs_is_left_after_a_limited_time(train, metrics, monkeypatch):
    monkeypatch.setattr(tracking, "FINISH_S", 8.0)
    server = runpy.run_path(str(Path(__file__).parents[1] / "wandb_server.py"))["WandbServer"]
    with server() as running:
        running.is_mute.set()
        for name, value in running.environ.items():
            monkeypatch.setenv(name, value)
        run_dir, took_s = train("--wandb.enable=true", "--steps=3")
        running.is_mute.clear()
    assert [*metrics(run_dir)] == [1, 2, 3]
    assert took_s < 30
    assert "WARNING: wandb did not finish in time" in log_of(run_dir)


@pytest.mark.soak
@pytest.mark.process
@pytest.mark.skipif("tensorboard" not in NAMES, reason=NEEDS)
def test_waiting_for_a_tracker_is_no_hang_of_a_rank(start_job, tmp_path):
    run_dir, timeout_s = tmp_path / "run", 8
    flags = (*STEPS, "--tensorboard.enable=true", f"--timeout_s={timeout_s}", "--steps=30")
    job = start_job(run_dir, 2, *flags)
    job.wait_until(lambda: [*running_trackers(job.launcher)])
    (tracker,) = running_trackers(job.launcher)
    tracker.suspend()
    job.wait_until(lambda: read(run_dir / "run.json").get("ending") == "finished")
    time.sleep(2 * timeout_s)
    tracker.resume()
    assert job.end()[0] == 0, job.printed()
    assert not (run_dir / "hang").exists()


def running_trackers(parent: psutil.Process | None = None) -> Iterator[psutil.Process]:
    for process in (parent or psutil.Process()).children(recursive=True):
        # Other tests may have left processes that have ended.
        with suppress(psutil.NoSuchProcess):
            if PROGRAM in " ".join(process.cmdline()):
                yield process


@pytest.mark.process
@pytest.mark.skipif("tensorboard" not in NAMES, reason=NEEDS)
def test_a_run_that_fails_ends_its_trackers(command, tracked_values, monkeypatch, tmp_path):
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Periods, "save", fail)
    argv = command.argv(tmp_path / "run", *STEPS, *enabled(["tensorboard"]), "--steps=3")
    with pytest.raises(ZeroDivisionError):
        run_training(read_train_config(argv))
    assert not [*running_trackers()]


@pytest.mark.parametrize("name", ["wandb", "tensorboard", "trackio"])
def test_a_missing_package_is_a_usage_error_before_anything_starts(
    command, monkeypatch, tmp_path, name
):
    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(tracking, "version", missing)
    config = read_train_config(command.argv(tmp_path / "run", f"--{name}.enable=true"))
    told = rf"--{name}\.enable=true needs .* Install: pip install 'manyhands\[track\]'"
    with pytest.raises(EnvironmentFault, match=told) as error:
        run_training(config)
    assert error.value.exit_code == 2
    assert not (tmp_path / "run").exists()
