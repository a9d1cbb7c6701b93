"""The training loop: when things happen. How they happen lives in the modules it calls.

One iteration is: data, step, NaN check, log, validate, save. A run resumed from the checkpoint of
step N continues exactly as if it had never stopped.
"""

from manyhands.checkpoint.snapshot import Position
from manyhands.config.run_dir import CHECKPOINTS, LAST, find_checkpoint
from manyhands.launch.outcome import Ending
from manyhands.training.health.out_of_memory import told_if_full
from manyhands.training.run import Run
from manyhands.training.validation import HELD_OUT_LOSS


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


def train(run: Run) -> Ending:
    """Train from the current position to the last step, or until a stop request."""
    catch_up(run)
    position = run.start
    batches = run.stream.starting_at(position.samples)
    stopping = False

    full = told_if_full(run.learner.share, run.world)
    with run.journal.following(), run.checkpoints.concluded(), full:
        run.world.defer_stops()
        while position.step < run.due.num_steps and not stopping:
            with run.clock.timing("data"):
                batch = next(batches)
            with run.clock.timing("update"):
                result = run.learner.update(batch, position.step)
            run.guard.note(position, result)
            position = position.after(run.learner.share.samples_per_step)

            run.meter.note(result, run.learner.lr)
            run.audit.note(position.step, batch)
            run.journal.advance(position.step)
            held_out = run.validator.losses_after(position.step)
            # A stop request during validation stops the run here: a resumed run validates again.
            stopping = run.stop_poll.after_step(must_ask=run.due.validate(position.step))
            saving = run.due.save(position.step, stopping)
            judging = run.due.judge(position.step, stopping)
            if judging and run.guard.must_return(run.learner, saving):
                position = roll_back(run, position)
                continue
            if run.due.log(position.step) or saving or held_out:
                measures = run.meter.lap() | run.guard.lap() | held_out
                marks = run.remarks.on(position.step, measures)
                run.journal.record(position.step, measures | marks)
            if saving:
                run.checkpoints.save(position, run.learner, held_out)
            run.journal.tell([*run.learner.news(), *run.checkpoints.news()])

    run.journal.tell(run.checkpoints.news())
    return Ending.STOPPED if stopping else Ending.FINISHED


def catch_up(run: Run) -> None:
    """Run the validation of the resumed step, if a stop request interrupted it."""
    step = run.start.step
    if run.due.validate(step) and run.world.any(run.journal.lacks(step, HELD_OUT_LOSS)):
        run.journal.amend(run.validator.losses_after(step))
