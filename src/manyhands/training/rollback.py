"""Rollback: training continues from the last checkpoint, with later samples."""

from manyhands.checkpoint.snapshot import Position
from manyhands.config.runs.run_dir import CHECKPOINTS, LAST, find_checkpoint
from manyhands.training.run import Run


def ensure_checkpoint(run: Run) -> None:
    """Collective. Save the start of a run that may roll back and has no checkpoint yet."""
    if run.config.on_nonfinite != "rollback":
        return
    if not run.world.broadcast((run.run_dir / CHECKPOINTS / LAST).exists()):
        run.checkpoints.save(run.start, run.learner)


def roll_back(run: Run, position: Position) -> Position:
    """Collective. Undo all steps since the last checkpoint; return the position to continue at."""
    # Data continues at the current position: samples of the undone steps are not drawn again.
    run.checkpoints.finish()
    folder = run.world.on_main(lambda: find_checkpoint(run.run_dir / CHECKPOINTS / LAST))
    saved, _ = run.checkpoints.load(folder, run.learner)
    run.guard.record_rollback(saved.step)
    run.metrics_window.restart(saved.step)
    run.run_log.truncate(saved.step)
    run.audit.truncate(saved.step)
    run.run_log.log_line(
        f"WARNING: rolled back from step {position.step} to the checkpoint of step {saved.step}; "
        f"data continues at sample {position.samples}"
    )
    return Position(saved.step, position.samples)
