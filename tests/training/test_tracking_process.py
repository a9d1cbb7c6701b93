"""The process of a tracker: killed at any moment, it leaves neither gap nor repetition."""

import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manyhands.config.resolve import read_train_config
from manyhands.observe.jsonl import JsonLines
from manyhands.observe.trackers.notes import read_notes
from manyhands.observe.trackers.tracked_run import TrackedRun
from manyhands.training.tracking import PROGRAM
from manyhands.training.tracking_process import request_of

CHECKPOINT, LAST = 150, 400
DEADLINE_S = 120.0


class Tracked:
    """A run by its rows, and the process of a tracker that follows it."""

    def __init__(self, name: str, run_dir: Path, *flags: str) -> None:
        self.name = name
        self.run_dir = run_dir
        (run_dir / "trackers").mkdir(parents=True, exist_ok=True)
        self._argv = ["--dataset.repo_id=me/pick", "--policy.type=act", "--steps=1000", *flags]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, step: int) -> JsonLines:
        """Start to follow a run that begins at a step; returns its rows, to be appended to."""
        rows = JsonLines(self.run_dir / "metrics.jsonl", step)
        position = {"start_step": step, "start_samples": step, "samples_per_step": 1}
        size = {"num_frames": 10, "num_episodes": 1}
        run = TrackedRun(
            run_dir=self.run_dir,
            eval_dir=self.run_dir / "eval",
            job_name="pick",
            config=read_train_config(self._argv),
            **position,
            **size,
        )
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", PROGRAM]
        with (self.run_dir / "process.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environ
            )
        assert self.process.stdin is not None
        self.process.stdin.write(request_of(self.name, run))
        self.process.stdin.flush()
        return rows

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something while the process lives."""
        assert self.process is not None
        deadline = time.monotonic() + DEADLINE_S
        while not is_so():
            assert self.process.poll() is None, (self.run_dir / "process.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def is_open(self) -> bool:
        """Whether the tracker has opened its run."""
        return len(read_notes(self.run_dir, self.name)) > (self.name != "tensorboard")

    def end(self, message: bytes = b"0\n") -> int:
        """End the run, and return the exit code of the process."""
        assert self.process is not None
        self.process.communicate(message, timeout=DEADLINE_S)
        return self.process.returncode


@pytest.fixture
def tracked(tmp_path: Path) -> Iterator[Callable[..., Tracked]]:
    """Makes runs with a process; one that a test leaves is killed."""
    made: list[Tracked] = []

    def make(name: str, *flags: str) -> Tracked:
        pytest.importorskip(name, reason="pip install 'manyhands[track]'")
        made.append(Tracked(name, tmp_path / "run", *flags))
        return made[-1]

    yield make
    for each in made:
        if each.process is not None and each.process.poll() is None:
            each.process.kill()


def append(rows: JsonLines, first: int, last: int) -> None:
    for step in range(first, last + 1):
        rows.append({"step": step, "loss": 1 / step})


@pytest.mark.process
@pytest.mark.parametrize("name", ["tensorboard", "wandb", "trackio"])
def test_every_step_is_logged_once_though_the_process_is_killed(tracked, tracked_values, name):
    run = tracked(name, "--wandb.mode=offline")
    append(run.start(0), 1, LAST)
    run.wait_until(run.is_open)
    time.sleep(1.5)
    run.process.kill()
    run.process.wait()
    held = tracked_values(name, run.run_dir, "train/steps")
    # The run is resumed from its checkpoint: later rows are made again.
    rows = run.start(CHECKPOINT)
    append(rows, CHECKPOINT + 1, LAST + 20)
    assert run.end() == 0
    steps = tracked_values(name, run.run_dir, "train/steps")
    assert [step for step, _ in steps] == [*range(1, LAST + 21)]
    assert steps[: len(held)] == held


@pytest.mark.soak
@pytest.mark.process
def test_a_server_holds_every_step_once_though_the_process_is_killed(tracked, monkeypatch):
    run = tracked("wandb")
    server = runpy.run_path(str(Path(__file__).parents[1] / "wandb_server.py"))["WandbServer"]
    with server() as running:
        for name, value in running.environ.items():
            monkeypatch.setenv(name, value)
        append(run.start(0), 1, LAST)
        run.wait_until(lambda: bool(run_id(run.run_dir)))
        run.wait_until(lambda: bool(running.history(run_id(run.run_dir))))
        run.process.kill()
        run.process.wait()
        rows = run.start(CHECKPOINT)
        append(rows, CHECKPOINT + 1, LAST + 20)
        assert run.end() == 0
        history = running.history(run_id(run.run_dir))
        assert [row["_step"] for row in history] == [*range(1, LAST + 21)]
        assert [row["train/loss"] for row in history] == [1 / row["_step"] for row in history]


@pytest.mark.soak
@pytest.mark.process
def test_files_of_a_run_that_was_killed_are_uploaded_as_one_run(tracked, monkeypatch):
    run = tracked("wandb", "--wandb.mode=offline")
    append(run.start(0), 1, LAST)
    run.wait_until(lambda: any(file.stat().st_size > 2**15 for file in logs_of(run.run_dir)))
    run.process.kill()
    run.process.wait()
    append(run.start(CHECKPOINT), CHECKPOINT + 1, LAST + 20)
    assert run.end() == 0
    server = runpy.run_path(str(Path(__file__).parents[1] / "wandb_server.py"))["WandbServer"]
    with server() as running:
        folders = sorted((run.run_dir / "wandb").glob("offline-run-*"))
        command = [str(Path(sys.executable).with_name("wandb")), "sync", *map(str, folders)]
        environ = os.environ | running.environ
        options = {"env": environ, "cwd": run.run_dir, "timeout": DEADLINE_S}
        synced = subprocess.run(command, capture_output=True, **options)
        steps = [row["_step"] for row in running.history(run_id(run.run_dir))]
    assert synced.returncode == 0 and steps == [*range(1, LAST + 21)], synced


def logs_of(run_dir: Path) -> list[Path]:
    from manyhands.observe.trackers.wandb_file import run_files

    return run_files(run_dir / "wandb", run_id(run_dir))


def run_id(run_dir: Path) -> str:
    return read_notes(run_dir, "wandb").get("id", "")


@pytest.mark.process
def test_signals_to_the_job_do_not_end_it_but_the_end_of_the_run_does(tracked, tracked_values):
    run = tracked("tensorboard")
    rows = run.start(0)
    run.wait_until(run.is_open)
    run.process.send_signal(signal.SIGTERM)
    append(rows, 1, 3)
    # A run that is killed leaves no exit code, and its last rows are logged all the same.
    assert run.end(b"") == 0
    assert [step for step, _ in tracked_values("tensorboard", run.run_dir, "train/steps")] == [
        1,
        2,
        3,
    ]


@pytest.mark.process
def test_two_processes_never_log_a_run_at_the_same_time(tracked, tracked_values):
    run = tracked("tensorboard")
    append(run.start(0), 1, 3)
    run.wait_until(run.is_open)
    first = run.process
    append(run.start(3), 4, 5)
    time.sleep(2)
    first.communicate(b"0\n", timeout=DEADLINE_S)
    assert run.end() == 0
    steps = [step for step, _ in tracked_values("tensorboard", run.run_dir, "train/steps")]
    assert steps == [1, 2, 3, 4, 5]
