"""Builds the tracker of a name, with the run that it already has."""

import secrets

from manyhands.observe.trackers.notes import Notes, read_notes, write_notes
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
    write_notes(run.run_dir, name, tracker.facts | foreign_steps(name, run, tracker.sent.last_step))
    return tracker


def foreign_steps(name: str, run: TrackedRun, last_step: int) -> Notes:
    """A warning if a new run continues what a flag names, and so logs no step twice."""
    tensorboard, wandb = run.config.tensorboard.folder, run.config.wandb.run_id
    flags = {"tensorboard": ("folder", tensorboard), "wandb": ("run_id", wandb)}
    flag, value = flags.get(name, ("", None))
    if value is None or run.start_step > 0 or last_step == 0:
        return {}
    return {
        "warning": f"--{name}.{flag}={value} already has steps 1 to {last_step}, and this run logs "
        "only later ones. Choose another to log all"
    }


def note_run_id(name: str, run: TrackedRun) -> str:
    """The id of the flag, else that of the run so far, else a new one; noted before its use."""
    asked = run.config.wandb.run_id if name == "wandb" else None
    known = read_notes(run.run_dir, name).get("id")
    run_id: str = asked or known or secrets.token_hex(ID_BYTES)
    write_notes(run.run_dir, name, {"id": run_id})
    return run_id
