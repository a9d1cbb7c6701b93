"""Trackio's database, read back by sqlite."""

import ast
from typing import Any

import pytest

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
print((tracker.sent.last_step, sorted(tracker.sent.evaluated), tracker.facts))
"""


def held(printed: str) -> Any:
    """What the tracker held before; Trackio prints as well."""
    return next(ast.literal_eval(line) for line in printed.splitlines() if line.startswith("("))


def test_metrics_are_read_back_and_a_resumed_run_knows_what_it_has(
    tracked_run, tracked_values, in_new_process
):
    run = tracked_run()
    facts = {"id": "abc", "project": "manyhands", "name": "pick-abc"}
    assert held(in_new_process(LOG, (run, 1, 3))) == (0, [], facts)
    assert held(in_new_process(LOG, (run, 4, 5))) == (3, [(1, "eval/eval_loss")], facts)
    losses = tracked_values("trackio", run.run_dir, "train/loss")
    assert losses == [(step, 1 / step) for step in (1, 2, 3, 4, 5)]
    assert tracked_values("trackio", run.run_dir, "eval/eval_loss") == [(1, 2.0), (4, 2.0)]
