"""A run whose processes die goes on by itself, as if nothing had happened."""

import json
import signal
import sys
from pathlib import Path

import pytest
import torch

from manyhands.config.launch.launcher import Launcher
from manyhands.config.resolve import read_train_config
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError, EnvironmentFault, Stopped
from manyhands.launch.outcome import Outcome, WorkerDeath
from manyhands.stop import StopSignal
from manyhands.training.restarts import FINAL, Placement, Restarts, Start, run_with_restarts
from manyhands.training.spawn import needs_workers, train_in_processes
from manyhands.training.start import run_training

BASE = ["--policy=act", "--dataset.root=x", "--policy.device=cpu"]
KILLED = Outcome(128 + signal.SIGKILL, [WorkerDeath(1, -signal.SIGKILL)])
STEPS = ("--steps=60", "--batch_size=6", "--log_freq=1", "--save_freq=10", "--audit")
STEPS += ("--policy.dropout=0",)


def config_of(*flags: str) -> TrainConfig:
    return read_train_config([*BASE, *flags])


class Deaths:
    """Starts that all end in some way, and what they were like."""

    def __init__(self, *outcomes: Outcome) -> None:
        self._outcomes = [*outcomes]
        self.starts: list[Start] = []

    def __call__(self, start: Start) -> Outcome:
        self.starts.append(start)
        return self._outcomes.pop(0)


@pytest.mark.parametrize("code", FINAL)
def test_what_another_start_would_not_change_is_final(tmp_path, code):
    config = config_of("--launch.max_restarts=3", f"--output_dir={tmp_path}")
    run = Deaths(Outcome(code))
    assert run_with_restarts(config, Placement(2), run, lambda: Placement(2), StopSignal()) == code
    assert len(run.starts) == 1


def test_without_restarts_nothing_is_added_to_the_flags():
    run = Deaths(KILLED)
    assert (
        run_with_restarts(config_of(), Placement(2), run, lambda: Placement(2), StopSignal()) == 137
    )
    assert run.starts == [Start(Placement(2), [])]


def test_a_run_that_was_asked_to_stop_is_not_started_again():
    config = config_of("--launch.max_restarts=3")
    run = Deaths(Outcome(1, stop_requested=True))
    assert run_with_restarts(config, Placement(2), run, lambda: Placement(2), StopSignal()) == 1


def test_a_fault_that_comes_back_ends_the_run(tmp_path, capsys):
    config = config_of("--launch.max_restarts=1", f"--output_dir={tmp_path}")
    run = Deaths(KILLED, KILLED)
    assert run_with_restarts(config, Placement(2), run, lambda: Placement(2), StopSignal()) == 137
    assert [start.flags for start in run.starts] == [
        [f"--output_dir={tmp_path}"],
        [f"--output_dir={tmp_path}", "--resume=auto"],
    ]
    said = capsys.readouterr().err
    assert "restart 1 of 1 in 1 s" in said
    assert "resuming from step 0; number of processes: 2" in said
    assert "giving up: 1 restarts in a row saved no new checkpoint" in said


def test_progress_begins_the_count_anew_and_pauses_grow_without_it(command, tmp_path):
    flags = (f"--output_dir={tmp_path / 'run'}", "--launch.max_restarts=2")
    restarts = Restarts(config_of(*flags), Placement(2))
    pauses = []
    for _ in range(2):
        assert restarts.may_follow(KILLED)
        pauses.append(restarts.pause_s)
    assert not restarts.may_follow(KILLED)
    run_training(read_train_config(command.argv(tmp_path / "run", "--steps=1")))
    assert restarts.may_follow(KILLED)
    assert [*pauses, restarts.pause_s] == [1, 2, 1]
    start = restarts.next(KILLED, Placement(2))
    assert start.restarts[0] | {"at": None} == {
        "at": None,
        "rank": 1,
        "how": KILLED.deaths[0].how,
        "step": 1,
        "num_processes": 2,
    }
    # The same checkpoint does not count twice.
    assert [restarts.may_follow(KILLED) for _ in range(2)] == [True, False]


def test_a_request_to_stop_ends_the_pause():
    stop = StopSignal()
    stop.request()
    config = config_of("--launch.max_restarts=3")
    with pytest.raises(Stopped):
        run_with_restarts(config, Placement(2), Deaths(KILLED), lambda: Placement(2), stop)


@pytest.mark.parametrize(
    ("flags", "left", "num_processes", "expected"),
    [
        (["--batch_size=4"], 3, 3, []),
        (["--batch_size=4"], 2, 2, [12, 4, 1]),
        (["--batch_size=4", "--accelerator.gradient_accumulation.steps=2"], 2, 2, [24, 4, 1]),
        (["--global_batch_size=12"], 2, 2, [12, "null", 1]),
        # Three samples in micro-batches of one: two processes would need different numbers of them.
        (["--batch_size=1"], 2, 1, [3, 1, 1]),
    ],
)
def test_fewer_processes_share_the_same_batch(tmp_path, flags, left, num_processes, expected):
    flags = [*flags, "--launch.max_restarts=1", f"--output_dir={tmp_path}"]
    restarts = Restarts(config_of(*flags), Placement(3))
    start = restarts.next(KILLED, Placement(left))
    assert start.places.num_processes == num_processes
    names = ("global_batch_size", "batch_size", "accelerator.gradient_accumulation.steps")
    said = [f"--{name}={value}" for name, value in zip(names, expected, strict=False)]
    assert start.flags[2:] == said
    read_train_config([*BASE, *flags, *said])


@pytest.mark.parametrize(
    "flags",
    [
        ["--launch.max_restarts=-1"],
        ["--launch.max_restarts=1", "--save_checkpoint=false"],
        [
            "--launch.max_restarts=1",
            "--launch.num_machines=2",
            "--launch.main_address=node1",
            "--launch.main_port=4000",
        ],
    ],
)
def test_restarts_that_cannot_be_are_refused_by_name(flags):
    with pytest.raises(ConfigError, match=r"--launch\.max_restarts"):
        config_of(*flags)


def test_restarts_have_no_place_under_a_launcher():
    started = Launcher(num_ranks=2, num_local_ranks=2, started_ranks=True)
    with pytest.raises(EnvironmentFault, match=r"--launch\.max_restarts"):
        needs_workers(config_of("--launch.max_restarts=1"), started)
    assert needs_workers(config_of("--launch.max_restarts=1"), Launcher())


def test_micro_batches_that_only_the_launcher_knows_of_are_refused():
    config, launcher = config_of("--launch.max_restarts=1"), Launcher(accumulation=2)
    with pytest.raises(EnvironmentFault, match=r"accumulation\.steps=2 instead"):
        train_in_processes(config, launcher, BASE, StopSignal())


@pytest.fixture(scope="module")
def whole(command, in_ranks, tmp_path_factory) -> Path:
    """A run in two processes that nobody disturbs."""
    run_dir = tmp_path_factory.mktemp("whole") / "run"
    in_ranks([(2, run_dir, command.argv(run_dir, *STEPS))])
    return run_dir


@pytest.mark.process
def test_a_killed_rank_changes_nothing(start_job, whole, tmp_path, weights):
    run_dir = tmp_path / "run"
    job = start_job(run_dir, 2, *STEPS, "--launch.max_restarts=1")
    job.wait_until((run_dir / "checkpoints" / "last").exists)
    job.rank(1).kill()
    job.wait_for_updates(60)
    assert job.end()[0] == 0, job.printed()
    assert "rank 1 was killed by SIGKILL" in job.printed()
    assert "restart 1 of 1 in 1 s" in job.printed()
    (restart,) = json.loads((run_dir / "run.json").read_text())["restarts"]
    assert (restart["rank"], restart["num_processes"]) == (1, 2)
    assert restart["step"] % 10 == 0 < restart["step"]
    for key, value in weights(whole).items():
        assert torch.equal(value, weights(run_dir)[key]), key
    for file in (whole / "audit").iterdir():
        assert (run_dir / "audit" / file.name).read_text() == file.read_text()


LOSING = """
import sys
from manyhands.config.launch.launcher import Launcher
from manyhands.config.resolve import read_train_config
from manyhands.stop import StopSignal
from manyhands.training.spawn import train_in_processes
from manyhands.training.restarts import Placement

argv = sys.argv[1:]
with StopSignal() as stop:
    config = read_train_config(argv)
    sys.exit(train_in_processes(config, Launcher(), argv, stop, lambda: Placement(1)))
"""
"""A launcher on a machine that has lost one of its two places when it looks again."""


@pytest.mark.launchers
@pytest.mark.process
def test_fewer_processes_go_on_with_the_same_batches(start_job, whole, tmp_path, metrics):
    run_dir = tmp_path / "run"
    flags = (*STEPS, "--launch.max_restarts=1")
    job = start_job(run_dir, 2, *flags, program=[sys.executable, "-c", LOSING])
    job.wait_until((run_dir / "checkpoints" / "last").exists)
    job.rank(0).kill()
    job.wait_for_updates(60)
    assert job.end()[0] == 0, job.printed()
    assert "number of processes: 1" in job.printed()
    assert batches_of(run_dir) == batches_of(whole)
    for step, row in metrics(whole).items():
        assert metrics(run_dir)[step]["loss"] == pytest.approx(row["loss"], rel=1e-4)


def batches_of(run_dir: Path) -> dict[int, list[int]]:
    """The rows of every update, over all ranks."""
    batches: dict[int, list[int]] = {}
    for file in sorted((run_dir / "audit").iterdir()):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            batches.setdefault(row["step"], []).extend(row["indices"])
    return batches
