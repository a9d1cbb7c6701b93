"""Builds the tracker of a name, with the run that it already has."""

import secrets

from manyhands.observe.trackers.notes import read_notes, write_notes
from manyhands.observe.trackers.tracked_run import TrackedRun
from manyhands.observe.trackers.tracker import Tracker

ID_BYTES = 4


def build_tracker(name: str, run: TrackedRun) -> Tracker:
    """Open the run of a tracker; a resumed run continues it."""
    match name:
        case "wandb":
            from manyhands.observe.trackers.wandb import WandbTracker

            tracker: Tracker = WandbTracker(run, note_run_id(name, run))
        case "trackio":
            from manyhands.observe.trackers.trackio import TrackioTracker

            tracker = TrackioTracker(run, note_run_id(name, run))
        case _:
            from manyhands.observe.trackers.tensorboard import TensorboardTracker

            tracker = TensorboardTracker(run)
    write_notes(run.run_dir, name, tracker.facts)
    return tracker


def note_run_id(name: str, run: TrackedRun) -> str:
    """The id of the flag, else that of the run so far, else a new one; noted before its use."""
    asked = run.config.wandb.run_id if name == "wandb" else None
    known = read_notes(run.run_dir, name).get("id")
    run_id: str = asked or known or secrets.token_hex(ID_BYTES)
    write_notes(run.run_dir, name, {"id": run_id})
    return run_id
