"""Event files, read back by TensorBoard."""

import math

import pytest

pytest.importorskip("tensorboard", reason="pip install 'manyhands[track]'")

from manyhands.observe.trackers.tensorboard import TensorboardTracker, read_events


def test_metrics_are_read_back_at_their_steps(tracked_run, tracked_values):
    run = tracked_run()
    tracker = TensorboardTracker(run)
    tracker.log_step(1, {"train/loss": 0.5, "train/steps": 1})
    tracker.log_step(3, {"train/loss": math.nan, "train/steps": 3})
    tracker.log_evaluation(1, {"eval/eval_loss": 2.0}, None)
    tracker.finish(0)
    assert tracked_values("tensorboard", run.run_dir, "train/steps") == [(1, 1.0), (3, 3.0)]
    losses = tracked_values("tensorboard", run.run_dir, "train/loss")
    assert losses == [(1, 0.5), (3, pytest.approx(math.nan, nan_ok=True))]
    assert tracked_values("tensorboard", run.run_dir, "eval/eval_loss") == [(1, 2.0)]


def test_a_truncated_event_is_written_again_by_the_resumed_run(tracked_run, tracked_values):
    run = tracked_run()
    tracker = TensorboardTracker(run)
    for step in (1, 2, 3):
        tracker.log_step(step, {"train/steps": step, "train/loss": 1.0})
    tracker.log_evaluation(1, {"eval/eval_loss": 2.0}, None)
    tracker.log_step(4, {"train/steps": 4})
    tracker.finish(1)
    (file,) = (run.run_dir / "tensorboard").iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    resumed = TensorboardTracker(run)
    assert (resumed.sent.last_step, resumed.sent.evaluated) == (3, {(1, "eval/eval_loss")})
    resumed.log_step(4, {"train/steps": 4})
    resumed.flush()
    steps = tracked_values("tensorboard", run.run_dir, "train/steps")
    assert steps == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)]


def test_the_folder_is_that_of_the_flag(tracked_run, tmp_path):
    run = tracked_run(f"--tensorboard.folder={tmp_path / 'events'}")
    tracker = TensorboardTracker(run)
    tracker.log_step(2, {"train/steps": 2})
    tracker.finish(0)
    assert tracker.facts == {"folder": str(tmp_path / "events")}
    assert read_events(tmp_path / "events").last_step == 2
    assert not (run.run_dir / "tensorboard").exists()
