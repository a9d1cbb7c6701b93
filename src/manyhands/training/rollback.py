"""A run that goes back to its last checkpoint, and on with samples it has not drawn yet."""

from manyhands.checkpoint.snapshot import Position
from manyhands.config.checkpoints import find_checkpoint
from manyhands.config.folders import CHECKPOINTS, LAST
from manyhands.training.run import Run


def secure_return(run: Run) -> None:
    """Collective. Save where a run starts if it may have to go back and has no checkpoint yet."""
    if run.config.on_nonfinite != "rollback":
        return
    if not run.world.share((run.run_dir / CHECKPOINTS / LAST).exists()):
        run.checkpoints.save(run.start, run.learner)


def roll_back(run: Run, position: Position) -> Position:
    """Collective. Take back all updates since the last checkpoint, and where to go on.

    Samples go on from the position: those of the bad update, and of the ones before it, do not
    come again.
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
