"""The script of `manyhands launch slurm` on a real SLURM: interrupted, and finished as if not."""

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from manyhands.observe.jsonl import read_rows

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(550)]

PYTHON = sys.executable
STEP_S = 300
NUM_STEPS = 1500
CPU = ("--gpus_per_node=0", "--processes_per_node=1", "--nodes=2", "--time=60", "--partition=gpu")
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


class Submission:
    """A job in the queue, with the run it trains."""

    def __init__(self, cluster, run_dir: Path, argv: list[str]) -> None:
        launch = (PYTHON, "-m", "manyhands", "launch", "slurm", *CPU, "--submit=true")
        self._cluster = cluster
        self.run_dir = run_dir
        self.number = cluster.run(*launch, "--", *argv).split()[-1]

    @property
    def facts(self) -> dict[str, str]:
        """What SLURM says of it."""
        return self._cluster.facts(self.number)

    def log(self, ending: str) -> str:
        """What it printed so far."""
        file = Path("logs", f"train_{self.number}.{ending}")
        return file.read_text() if file.exists() else ""

    def wait_for_step(self, step: int) -> None:
        """Wait until training has passed a step."""
        file = self.run_dir / "metrics.jsonl"

        def is_past() -> bool:
            assert self.facts["JobState"] not in OVER, self.log("out") + self.log("err")
            return file.exists() and any(row["step"] >= step for row in read_rows(file))

        self._cluster.wait(is_past, STEP_S, f"step {step} is never reached")

    def wait_for_state(self, *states: str) -> None:
        """Wait until the job is in one of some states."""
        self._cluster.wait(
            lambda: self.facts["JobState"] in states,
            STEP_S,
            f"{self.facts} is never one of {states}\n{self.log('out')}{self.log('err')}",
        )


@pytest.fixture
def submit(cluster, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(cluster.environ, "OMP_NUM_THREADS", "1")

    def submitted(*flags: str) -> Submission:
        argv = command.argv(Path("run"), "--batch_size=4", "--log_freq=1", "--audit", *flags)
        return Submission(cluster, tmp_path / "run", argv)

    return submitted


def test_a_job_preempted_and_out_of_time_ends_as_if_nothing_had_happened(
    cluster, submit, command, tmp_path, weights
):
    job = submit(f"--steps={NUM_STEPS}")

    job.wait_for_step(20)
    urgent = ("--partition=urgent", "--nodes=2", "--ntasks-per-node=2", "--output=urgent.txt")
    cluster.run("sbatch", *urgent, "--wrap=srun sleep 1")
    job.wait_for_state("PENDING")
    assert job.facts["Restarts"] == "1", job.log("out") + job.log("err")

    first = last_checkpoint(job.run_dir)
    job.wait_for_step(first + 20)
    # With less left than the 120 s before which a job is to be warned, SLURM warns it at once.
    cluster.run("scontrol", "update", f"JobId={job.number}", "TimeLimit=2")
    job.wait_for_state("PENDING")
    cluster.run("scontrol", "update", f"JobId={job.number}", "TimeLimit=60")

    job.wait_for_state(*OVER)
    assert job.facts["JobState"] == "COMPLETED", job.log("out") + job.log("err")
    assert job.facts["Restarts"] == "2"
    assert last_checkpoint(job.run_dir) == NUM_STEPS
    output = job.log("out")
    assert output.count("stopped on request; requeued") == 2
    assert f"Resuming from step {first}" in output
    assert all(f"rank {rank} -> node{rank + 1} cpu" in output for rank in range(2))
    assert Path("logs", f"train_{job.number}.err").exists()

    whole = tmp_path / "whole"
    flags = ("--batch_size=4", "--audit", f"--steps={NUM_STEPS}", "--launch.num_processes=2")
    command.train(whole, *flags)
    for key, value in weights(whole).items():
        assert torch.equal(value, weights(job.run_dir)[key]), key
    for file in (whole / "audit").iterdir():
        assert (job.run_dir / "audit" / file.name).read_text() == file.read_text()


def test_a_canceled_job_saves_and_stays_canceled(cluster, submit):
    job = submit("--steps=1000000")
    job.wait_for_step(5)
    cluster.run("scancel", job.number)
    job.wait_for_state("CANCELLED")
    assert last_checkpoint(job.run_dir) >= 5
    assert job.facts["Restarts"] == "0"


def test_a_process_that_is_killed_ends_the_job_for_good(cluster, submit):
    job = submit("--steps=1000000")
    job.wait_for_step(5)
    os.kill(process_of_task(1), signal.SIGKILL)
    killed_at = time.monotonic()
    job.wait_for_state("FAILED")
    assert time.monotonic() - killed_at < 30
    assert "task 1" in job.log("err")
    assert job.facts["Restarts"] == "0"


def test_gpus_are_asked_for_and_every_process_sees_those_of_its_node(cluster, command, tmp_path):
    launch = (PYTHON, "-m", "manyhands", "launch", "slurm", "--nodes=2", "--gpus_per_node=2")
    script = tmp_path / "gpus.sbatch"
    cluster.run(*launch, f"--script={script}", "--", *command.argv(tmp_path / "run"))
    train = "train=(\n"
    show = 'echo gpus "$CUDA_VISIBLE_DEVICES" of "$SLURM_LOCALID"'
    text = script.read_text().replace(train, f"{train}bash -c {show!r}\n")
    (tmp_path / "shown.sbatch").write_text(text)
    output = tmp_path / "shown.txt"
    options = ("--wait", f"--output={output}", f"--error={output}")
    cluster.run("sbatch", *options, str(tmp_path / "shown.sbatch"))
    seen = [line for line in output.read_text().splitlines() if line.startswith("gpus")]
    assert sorted(seen) == ["gpus 0,1 of 0"] * 2 + ["gpus 0,1 of 1"] * 2


def last_checkpoint(run_dir: Path) -> int:
    return int((run_dir / "checkpoints" / "last").readlink().name)


def process_of_task(task: int) -> int:
    """The training process of one task of the only job that runs."""
    for process in psutil.process_iter():
        try:
            is_python = process.cmdline()[:1] == [PYTHON]
            if is_python and process.environ().get("SLURM_PROCID") == str(task):
                return process.pid
        except psutil.Error:
            continue
    raise AssertionError(f"no process of task {task}")
