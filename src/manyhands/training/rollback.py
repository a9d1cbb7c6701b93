"""Rolls a run back to its last checkpoint; it continues with samples not drawn yet."""

from manyhands.checkpoint.snapshot import Position
from manyhands.config.checkpoints import find_checkpoint
from manyhands.config.folders import CHECKPOINTS, LAST
from manyhands.training.run import Run


def secure_return(run: Run) -> None:
    """Collective. Save the start of a run that may roll back and has no checkpoint yet."""
    if run.config.on_nonfinite != "rollback":
        return
    if not run.world.share((run.run_dir / CHECKPOINTS / LAST).exists()):
        run.checkpoints.save(run.start, run.learner)


def roll_back(run: Run, position: Position) -> Position:
    """Collective. Undo all steps since the last checkpoint; return the position to continue at.

    Data continues at the current position: samples of the undone steps are not drawn again.
    """
    run.checkpoints.finish()
    folder = run.world.once(lambda: find_checkpoint(run.run_dir / CHECKPOINTS / LAST))
    saved, _ = run.checkpoints.load(folder, run.learner)
    run.guard.note_return(saved.step)
    run.meter.restart(saved.step)
    run.journal.return_to(saved.step)
    run.audit.return_to(saved.step)
    run.journal.say(
        f"WARNING: rolled back from step {position.step} to the checkpoint of step {saved.step}; "
        f"data continues at sample {position.samples}"
    )
    return Position(saved.step, position.samples)
