"""Trackio's database, read back by sqlite."""

import ast
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from manyhands.launch.workers import free_port

pytest.importorskip("trackio", reason="pip install 'manyhands[track]'")

LOG = """
import pickle, sys
run, first, last = pickle.load(sys.stdin.buffer)
from manyhands.observe.trackers.trackio import TrackioTracker
tracker = TrackioTracker(run, "abc")
for step in range(first, last + 1):
    tracker.log_step(step, {"train/steps": step, "train/loss": 1 / step})
tracker.log_evaluation(first, {"eval/eval_loss": 2.0}, None)
tracker.finish(0)
held = tracker.sent
print((held.last_step, held.evaluated_until, sorted(held.evaluated), tracker.facts))
"""
SERVE = """
import sys, time, trackio
trackio.show(open_browser=False, block_thread=False, server_port=int(sys.argv[1]))
time.sleep(120)
"""


def held(printed: str) -> Any:
    """What the tracker held before; Trackio prints as well."""
    return next(ast.literal_eval(line) for line in printed.splitlines() if line.startswith("("))


def test_metrics_are_read_back_and_a_resumed_run_knows_what_it_has(
    tracked_run, tracked_values, in_new_process
):
    run = tracked_run()
    facts = {"id": "abc", "project": "manyhands", "name": "pick-abc"}
    assert held(in_new_process(LOG, (run, 1, 3))) == (0, 0, [], facts)
    assert held(in_new_process(LOG, (run, 4, 5))) == (3, 0, [(1, "eval/eval_loss")], facts)
    losses = tracked_values("trackio", run.run_dir, "train/loss")
    assert losses == [(step, 1 / step) for step in (1, 2, 3, 4, 5)]
    assert tracked_values("trackio", run.run_dir, "eval/eval_loss") == [(1, 2.0), (4, 2.0)]


def test_a_space_that_cannot_be_reached_is_an_error_that_training_reports(
    tracked_run, in_new_process, monkeypatch
):
    monkeypatch.setenv("HF_TOKEN", "hf_writer")
    run = tracked_run("--trackio.space_id=me/board")
    with pytest.raises(AssertionError, match="me/board"):
        in_new_process(LOG, (run, 1, 2))


@pytest.mark.soak
@pytest.mark.process
def test_a_server_is_sent_what_it_does_not_hold(tracked_run, in_new_process, monkeypatch, tmp_path):
    run = tracked_run("--trackio.project=arm")
    with serving(tmp_path / "server") as address:
        monkeypatch.setenv("TRACKIO_SERVER_URL", address)
        assert held(in_new_process(LOG, (run, 1, 3)))[:3] == (0, 0, [])
        assert held(in_new_process(LOG, (run, 4, 5)))[:3] == (3, 3, [])
    with sqlite3.connect(tmp_path / "server" / "arm.db") as database:
        found = database.execute("select run_name, step from metrics order by step")
        assert {*found} == {("pick-abc", step) for step in (1, 2, 3, 4, 5)}


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Trackio's own server; yields its address for writers."""
    environ = os.environ | {"TRACKIO_DIR": str(folder)}
    command = [sys.executable, "-u", "-c", SERVE, str(free_port())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as server:
        assert server.stdout is not None
        lines = iter(server.stdout.readline, "")
        yield next(line.split()[-1] for line in lines if "write_token=" in line)
        server.kill()
