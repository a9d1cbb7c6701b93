"""What a run says to a stop request, at once: the step in progress may take long."""

from pathlib import Path

from manyhands import units
from manyhands.config.runs.run_dir import list_checkpoints
from manyhands.launch.program import resume_command
from manyhands.training.run import Run

AGAIN = "Press Ctrl-C again to quit without saving."
FIRST_SAVE_BYTES_PER_S = 200e6
"""The assumed speed of a disk until a save is measured."""


class StopAnswers:
    """Answers stop requests on the console of the main rank."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __call__(self, is_second: bool) -> None:
        """Say what follows a request; a second one loses the steps since the last checkpoint."""
        self._run.run_log.print_line(self._quitting() if is_second else self._stopping())
        if is_second:
            # Now: the main thread may hang, and this process ends without it.
            self._run.run_log.log_quit(self.ending())

    def ending(self) -> str:
        """The record of a run that the user quit."""
        saved = self._last_saved()
        resume = (
            "there is no checkpoint" if saved is None else f"resume continues from step {saved}"
        )
        return f"quit without saving: {resume}"

    def _stopping(self) -> str:
        if not self._run.config.save_checkpoint:
            return "Stopping after this step; nothing is saved (--save_checkpoint=false)."
        seconds = self._save_s()
        about = units.duration(seconds) if seconds >= 10 else f"{max(1, round(seconds))} s"
        return f"Stopping after this step, then saving (about {about}). {AGAIN}"

    def _save_s(self) -> float:
        """How long saving takes: as long as the last time, else as its size suggests."""
        usual_s = self._run.checkpoints.usual_save_s
        if usual_s is not None:
            return usual_s
        return self._run.learner.memory.num_bytes / FIRST_SAVE_BYTES_PER_S

    def _quitting(self) -> str:
        saved, step = self._last_saved(), self._run.run_log.step
        if saved is None:
            return f"Quitting without saving: all {step} steps are lost; there is no checkpoint."
        lost = f"steps {saved + 1} to {step} are lost" if step > saved else "no step is lost"
        command = resume_command(self._run.run_dir)
        return f"Quitting without saving: {lost}. Continue from step {saved} with: {command}"

    def _last_saved(self) -> int | None:
        """The step that a resume continues from: a save in progress is canceled."""
        self._run.checkpoints.cancel()
        return last_saved_step(self._run.run_dir)


def last_saved_step(run_dir: Path) -> int | None:
    """The step of the newest checkpoint, if there is any."""
    checkpoints = list_checkpoints(run_dir)
    return int(checkpoints[0].name) if checkpoints else None
