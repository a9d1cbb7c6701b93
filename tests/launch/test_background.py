"""Programs that work for a run in the background."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from manyhands.config.launch.launcher import TAKEN
from manyhands.launch.background import LOWEST_PRIORITY, start_in_background

SHOW = """
import json, os, sys
from manyhands.launch.background import lower_priority
lower_priority()
print(json.dumps({"environ": dict(os.environ), "nice": os.nice(0), "given": sys.stdin.read()}))
"""
SLEEP = "from manyhands.launch.background import lower_priority as settle\n"
SLEEP += "import time\nsettle()\nprint('settled', flush=True)\ntime.sleep(600)"
START = """
import sys, time
from pathlib import Path
from manyhands.launch.background import start_in_background
process = start_in_background([sys.executable, "-c", sys.argv[1]], Path(sys.argv[2]), 0, 1)
print(process.pid, flush=True)
time.sleep(600)
"""
DEADLINE_S = 120


def test_it_is_a_single_rank_of_the_lowest_priority_on_one_gpu(tmp_path, monkeypatch):
    ranks = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "FSDP_VERSION", "SLURM_PROCID"}
    ranks |= {f"{TAKEN}ACCELERATE_USE_FSDP"}
    for name in ranks:
        monkeypatch.setenv(name, "3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    monkeypatch.setenv("HF_HOME", "/somewhere")
    log = tmp_path / "log"
    process = start_in_background([sys.executable, "-c", SHOW], log, 1, 4)
    process.communicate(b"a request", timeout=DEADLINE_S)
    shown = json.loads(log.read_text())
    assert shown["nice"] == LOWEST_PRIORITY and shown["given"] == "a request"
    environ = shown["environ"]
    assert environ["CUDA_VISIBLE_DEVICES"] == "GPU-b" and environ["HF_HOME"] == "/somewhere"
    assert environ["TORCHINDUCTOR_COMPILE_THREADS"] == "4"
    assert not ranks & environ.keys()


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of this system does not see to it")
def test_it_ends_with_the_process_that_started_it_even_if_that_is_killed(tmp_path):
    log = tmp_path / "log"
    command = [sys.executable, "-c", START, SLEEP, str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        wait_until(lambda: "settled" in log.read_text())
        os.kill(parent.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(child))


def wait_until(is_so) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
