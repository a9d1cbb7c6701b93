"""What a run says to a stop request, at once: the step in progress may take long."""

from pathlib import Path

from manyhands import units
from manyhands.config.runs.run_dir import CHECKPOINTS, LAST
from manyhands.launch.program import resume_command
from manyhands.training.run import Run

AGAIN = "Press Ctrl-C again to quit without saving."


class StopAnswers:
    """Answers stop requests on the console of the main rank."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __call__(self, is_second: bool) -> None:
        """Say what follows a request; a second one loses the steps since the last checkpoint."""
        self._run.run_log.print_line(self._quitting() if is_second else self._stopping())

    def _stopping(self) -> str:
        if not self._run.config.save_checkpoint:
            return "Stopping after this step; nothing is saved (--save_checkpoint=false)."
        usual_s = self._run.checkpoints.usual_save_s
        about = "" if usual_s is None else f" (about {units.duration(usual_s)})"
        return f"Stopping after this step, then saving{about}. {AGAIN}"

    def _quitting(self) -> str:
        saved, step = last_saved_step(self._run.run_dir), self._run.run_log.step
        if saved is None:
            return f"Quitting without saving: all {step} steps are lost; there is no checkpoint."
        lost = f"steps {saved + 1} to {step} are lost" if step > saved else "no step is lost"
        command = resume_command(self._run.run_dir)
        return f"Quitting without saving: {lost}. Continue from step {saved} with: {command}"


def last_saved_step(run_dir: Path) -> int | None:
    """The step of the newest checkpoint, if there is any."""
    last = run_dir / CHECKPOINTS / LAST
    return int(last.resolve().name) if last.exists() else None
