"""The training loop: when things happen. How they happen lives in the modules it calls.

One step is: data, update, log, validate, save. A checkpoint taken after step N followed by a resume
continues exactly as if the run had never stopped.
"""

from manyhands.training.ending import Ending
from manyhands.training.run import Run
from manyhands.training.stop import StopSignal


def train(run: Run) -> Ending:
    """Train from where the run stands until its last step, or until asked to stop."""
    position = run.start
    batches = run.stream.starting_at(position.samples)

    with StopSignal() as stop, run.journal.following():
        while position.step < run.due.num_steps:
            with run.clock.timing("data"):
                batch = next(batches)
            with run.clock.timing("update"):
                result = run.learner.update(batch, position.step)
            position = position.after(run.learner.share.samples_per_step)

            run.meter.note(result)
            run.audit.note(position.step, batch)
            run.journal.advance(position.step)
            stopping = run.due.poll(position.step) and run.world.any(stop.requested)
            saving = run.due.save(position.step, stopping)
            held_out = run.validator.losses_after(position.step)
            if run.due.log(position.step) or saving or held_out:
                # Measures come before the save: one that is not finite ends the run here.
                run.journal.record(position.step, run.meter.lap() | held_out)
            if saving:
                run.checkpoints.save(position, run.learner)
                run.journal.say(f"checkpoint of step {position.step} saved")
            if stopping:
                return Ending.STOPPED

    return Ending.FINISHED
