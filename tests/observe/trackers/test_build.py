"""Trackers by their names, and the ids of their runs."""

import pytest

from manyhands.observe.trackers.build import build_tracker, note_run_id
from manyhands.observe.trackers.notes import read_notes


def test_a_resumed_run_keeps_its_id_and_the_flag_wins(tracked_run):
    run = tracked_run()
    first = note_run_id("wandb", run)
    assert read_notes(run.run_dir, "wandb") == {"id": first}
    assert note_run_id("wandb", run) == first
    assert note_run_id("trackio", run) != first
    asked = tracked_run("--wandb.run_id=mine")
    assert note_run_id("wandb", asked) == "mine"
    assert note_run_id("wandb", run) == "mine"


def test_the_facts_of_a_tracker_are_noted(tracked_run):
    pytest.importorskip("tensorboard", reason="pip install 'manyhands[track]'")
    run = tracked_run()
    build_tracker("tensorboard", run).finish(0)
    assert read_notes(run.run_dir, "tensorboard") == {"folder": str(run.run_dir / "tensorboard")}


def test_a_new_run_is_told_that_its_steps_are_those_of_another(tracked_run, tmp_path):
    pytest.importorskip("tensorboard", reason="pip install 'manyhands[track]'")
    flag = f"--tensorboard.folder={tmp_path / 'all'}"
    first = build_tracker("tensorboard", tracked_run(flag))
    first.log_step(3, {"train/loss": 0.5})
    first.finish(0)
    assert "warning" not in read_notes(tracked_run().run_dir, "tensorboard")
    build_tracker("tensorboard", tracked_run(flag, start_step=2)).finish(0)
    assert "warning" not in read_notes(tracked_run().run_dir, "tensorboard")
    build_tracker("tensorboard", tracked_run(flag)).finish(0)
    told = read_notes(tracked_run().run_dir, "tensorboard")["warning"]
    assert told.startswith(f"{flag} already has steps 1 to 3")
