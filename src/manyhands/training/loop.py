"""The training loop: when things happen. How they happen lives in the modules it calls.

One iteration is: data, step, validate, NaN check, log, save, evaluate. A run resumed from the
checkpoint of step N continues exactly as if it had never stopped.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from manyhands.checkpoint.snapshot import Position
from manyhands.launch.outcome import Ending
from manyhands.training.evaluation_scores import SUCCESS
from manyhands.training.health.out_of_memory import explaining_oom
from manyhands.training.rollback import roll_back
from manyhands.training.run import Run
from manyhands.training.step.train_step import StepMetrics
from manyhands.training.stop_answers import StopAnswers
from manyhands.training.validation import HELD_OUT_LOSS
from manyhands.types import Batch


@contextmanager
def training_context(run: Run) -> Iterator[None]:
    """Show progress, measure the load, answer stop requests, and wait for saves at the end."""
    answers = StopAnswers(run)
    with (
        run.run_log.following(answers.ending),
        run.checkpoints.waiting_for_saves(),
        explaining_oom(run.learner.split, run.world),
        run.meters.sampling(),
    ):
        run.world.defer_stops(answers)
        yield


def train(run: Run) -> Ending:
    """Train from the current position to the last step, or until a stop request."""
    measure_missed(run)
    position, stopping = run.start, False
    ended_early = run.early_stopping.reason_after(position.step)
    batches = run.stream.starting_at(position.samples)

    with training_context(run):
        while position.step < run.periods.num_steps and not (stopping or ended_early):
            run.profiler.before(position.step + 1)
            with run.meters.timing("data"):
                batch = next(batches)
            with run.meters.timing("update"):
                result = run.learner.train_step(batch, position.step)
            run.guard.note(position, result)
            position = position.after(run.learner.split.samples_per_step)
            note_step(run, position, batch, result)

            scores = run.validator.scores_after(position.step)
            # A stop request while measuring stops the run here: a resumed run measures again.
            stopping = run.stop_poll.after_step(force=run.periods.validate(position.step))
            ended_early = run.early_stopping.reason_after(position.step, scores)
            is_last = stopping or ended_early is not None
            saving = run.periods.save(position.step, is_last)
            judging = run.periods.judge(position.step, is_last)
            if judging and run.guard.must_roll_back(run.learner, saving):
                position, ended_early = roll_back(run, position), None
                continue
            if run.periods.record(position.step) or saving:
                log_metrics(run, position.step, scores)
            if saving:
                save(run, position, scores)
            if run.periods.evaluate(position.step) and not stopping:
                # After the save: of all that a run does, simulators are the likeliest to end it.
                stopping, reason = evaluate(run, position, scores, saving)
                ended_early = ended_early or reason
            log_messages(run)

    stopping |= finish(run, stopping, ended_early)
    return Ending.STOPPED if stopping else Ending.FINISHED


def note_step(run: Run, position: Position, batch: Batch, result: StepMetrics) -> None:
    """Note a step for the next row, the audit and the progress line."""
    run.metrics_window.note(result, run.learner.lr)
    run.audit.record(position.step, batch)
    run.run_log.advance(position.step, run.metrics_window.recent)


def log_metrics(run: Run, step: int, scores: dict[str, float]) -> None:
    """Collective. Log the steps since the last row, and what is wrong with the run, if anything."""
    measures = run.metrics_window.lap() | run.guard.lap() | scores
    with run.meters.timing("logging"):
        marks = run.loss_spikes.on(step, measures)
        run.run_log.record(step, measures | marks)
        run.run_log.record_ranks(step, run.metrics_window.ranks)
        run.run_log.log_verdict({"step_mode": run.learner.mode})


def save(run: Run, position: Position, scores: dict[str, float]) -> None:
    """Collective. Start to write the checkpoint of a position."""
    with run.meters.timing("checkpoint"):
        run.checkpoints.await_scores(run.evaluation.unscored_steps())
        run.checkpoints.save(position, run.learner, scores, run.metrics_window.unfinished)


def evaluate(
    run: Run, position: Position, scores: dict[str, float], is_saved: bool
) -> tuple[bool, str | None]:
    """Collective. Run episodes in simulation; return if a stop request came, and why to end early.

    `scores` are those that the step has already.
    """
    found = run.evaluation.scores_after(position.step)
    run.metrics_window.restart_speed()
    run.run_log.amend(position.step, found)
    stopping = run.stop_poll.poll()
    ended_early = run.early_stopping.reason_after(position.step, found)
    if is_saved:
        run.checkpoints.amend(position.step, found)
    elif run.periods.save(position.step, stopping or ended_early is not None):
        save(run, position, scores | found)
    return stopping, ended_early


def measure_missed(run: Run) -> None:
    """Run the validation and evaluation of the resumed step that a stop request interrupted."""
    step = run.start.step
    scores: dict[str, float] = {}
    if run.periods.validate(step) and run.world.any(run.run_log.lacks(step, HELD_OUT_LOSS)):
        scores |= run.validator.scores_after(step)
    if run.periods.evaluate(step) and run.world.any(run.run_log.lacks(step, SUCCESS)):
        scores |= run.evaluation.scores_after(step)
    run.run_log.amend(step, scores)
    run.checkpoints.amend(step, scores)


def finish(run: Run, stopping: bool, ended_early: str | None) -> bool:
    """Collective. Wait for evaluations, log them and the verdicts; return if a stop ended one."""
    if ended_early is not None:
        run.run_log.log_line(ended_early)
    is_stopped = run.evaluation.finish(stopping)
    log_messages(run)
    run.run_log.note(run.evaluation.facts())
    run.run_log.log_verdict({"step_mode": run.learner.mode}, True)
    return is_stopped


def log_messages(run: Run) -> None:
    """Log messages since the last call, and add late scores to their rows and checkpoints."""
    # Checkpoints change only between saves, and training does not wait for one.
    if not run.checkpoints.is_saving:
        for step, scores in run.evaluation.late_scores():
            run.run_log.amend(step, scores)
            run.checkpoints.amend_late(step, scores)
    for part in (run.learner, run.evaluation, run.checkpoints):
        run.run_log.log(part.messages())
    run.tracking.report()
