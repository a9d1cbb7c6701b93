"""Ranks that were asked to stop before they trained leave together."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from manyhands.config.policies.act import ActConfig
from manyhands.config.train import TrainConfig
from manyhands.errors import Stopped
from manyhands.launch.workers import run_workers
from manyhands.parallel.world import joined_world
from manyhands.stop import StopSignal

DEADLINE_S = 120
# The main rank works where it hears no signal: a lock taken twice is never free.
WORK = """
import ctypes, os, sys
from pathlib import Path
from manyhands.config.policies.act import ActConfig
from manyhands.config.train import TrainConfig
from manyhands.errors import Stopped
from manyhands.parallel.world import joined_world
from manyhands.stop import StopSignal

mutex, lock = ctypes.create_string_buffer(256), ctypes.CDLL(None).pthread_mutex_lock
try:
    with (
        StopSignal(insists=True) as stop,
        joined_world(TrainConfig(policy=ActConfig(device="cpu")), stop=stop) as world,
    ):
        lock(mutex)
        Path(sys.argv[1], str(world.rank)).write_text(str(os.getpid()))
        world.on_main(lambda: lock(mutex))
except Stopped as stopped:
    sys.exit(stopped.exit_code)
"""


def ask(rank: int, folder: Path, asked_at: list[float]) -> None:
    """Ask one rank to stop once all are at work."""
    deadline = time.monotonic() + DEADLINE_S
    while len(list(folder.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    asked_at.append(time.monotonic())
    os.kill(int((folder / str(rank)).read_text()), signal.SIGTERM)


@pytest.mark.process
def test_a_request_to_a_rank_that_waits_ends_all_even_one_that_hears_nothing(tmp_path, capfd):
    asked_at: list[float] = []
    threading.Thread(target=ask, args=(1, tmp_path, asked_at), daemon=True).start()
    outcome = run_workers(2, [sys.executable, "-c", WORK, str(tmp_path)])
    assert outcome.code == 75, capfd.readouterr().err
    assert time.monotonic() - asked_at[0] < 30
    assert capfd.readouterr().err == ""


def test_a_request_is_obeyed_until_it_is_deferred():
    stop = StopSignal()
    with joined_world(TrainConfig(policy=ActConfig(device="cpu")), stop=stop) as world:
        assert not world.is_stopping()
        world.defer_stops()
        stop.request()
        assert world.is_stopping()
        with pytest.raises(Stopped):
            world.defer_stops()
