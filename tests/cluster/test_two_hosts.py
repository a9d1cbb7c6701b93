"""Runs of torchrun that span two hosts, which reach each other by network only."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from manyhands.observe.jsonl import read_rows

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

DEADLINE_S = 200
GONE_S = 30
PORT = 29_500
FLAGS = ("--batch_size=4", "--log_freq=1")


def start(hosts, folder: Path, argv: list[str], num_processes: int) -> list[subprocess.Popen]:
    """The same command on both hosts; what they print is in files of their names."""
    programs = Path(sys.executable)
    launcher = [
        str(programs.with_name("torchrun")),
        "--nnodes=2",
        f"--nproc-per-node={num_processes}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={hosts[0].name}:{PORT}",
        f"--rdzv-id={folder.name}",
    ]
    command = [*launcher, str(programs.with_name("manyhands-train")), *argv]
    environ = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"}
    return [host.start(command, folder / host.name, environ) for host in hosts]


def words(folder: Path) -> str:
    return "\n".join((folder / name).read_text() for name in ("node1", "node2"))


@pytest.mark.launchers
@pytest.mark.parametrize("num_processes", [1, pytest.param(2, marks=pytest.mark.slurm)])
def test_two_hosts_train_as_one_with_as_many_processes(
    hosts, command, tmp_path, metrics, weights, num_processes
):
    apart, together = tmp_path / "apart", tmp_path / "together"
    flags = (*FLAGS, "--steps=4")
    running = start(hosts, tmp_path, command.argv(apart, *flags), num_processes)
    codes = [process.wait(DEADLINE_S) for process in running]
    assert codes == [0, 0], words(tmp_path)
    command.train(together, *flags, f"--launch.num_processes={2 * num_processes}")
    losses = [
        {step: row["loss"] for step, row in metrics(run).items()} for run in (apart, together)
    ]
    assert losses[0] == losses[1] and len(losses[0]) == 4
    for key, value in weights(together).items():
        assert torch.equal(value, weights(apart)[key]), key
    for rank in range(2 * num_processes):
        host = "node1" if rank < num_processes else "node2"
        assert f"rank {rank} -> {host} cpu" in words(tmp_path)


@pytest.mark.launchers
def test_when_one_host_is_lost_the_other_says_so_and_ends(hosts, command, tmp_path):
    run_dir = tmp_path / "run"
    argv = command.argv(run_dir, *FLAGS, "--steps=1000000")
    running = start(hosts, tmp_path, argv, 1)
    wait_for_step(run_dir, 5, running, tmp_path)
    for process in psutil.Process(running[1].pid).children(recursive=True):
        process.kill()
    lost_at = time.monotonic()
    assert running[0].wait(DEADLINE_S) != 0
    assert time.monotonic() - lost_at < GONE_S, words(tmp_path)
    assert re.search(r"manyhands.*\brank\b.*\blost\b", (tmp_path / "node1").read_text())
    assert not alive_on(hosts[0])


def wait_for_step(run_dir: Path, step: int, running: list, folder: Path) -> None:
    """Wait until a run has passed a step."""
    deadline = time.monotonic() + DEADLINE_S
    file = run_dir / "metrics.jsonl"
    while not file.exists() or not any(row["step"] >= step for row in read_rows(file)):
        assert all(process.poll() is None for process in running), words(folder)
        assert time.monotonic() < deadline, words(folder)
        time.sleep(0.1)


def alive_on(host) -> list[str]:
    """Command lines of all Pythons on a host."""
    done = subprocess.run(host.command(["ps", "-eo", "args"]), capture_output=True, text=True)
    return [line for line in done.stdout.splitlines() if "python" in line]
