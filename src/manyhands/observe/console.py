"""What a person sees while a run goes on: a bar on a terminal, plain lines elsewhere."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from manyhands import units

Metrics = dict[str, float]


class Display:
    """Shows progress towards a number of updates."""

    def __init__(self, num_steps: int, step: int, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._num_steps = num_steps
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[measures]}"),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._progress.add_task(
            "training", total=num_steps, completed=step, measures=""
        )

    def __enter__(self) -> "Display":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """Print a line, above the bar where there is one."""
        self._console.print(text, markup=False)

    def advance(self, step: int) -> None:
        """Move the bar to an update."""
        self._progress.update(self._task, completed=step)

    def measure(self, step: int, metrics: Metrics) -> str:
        """Show the measures of an update and return them as a line."""
        text = measures_of(metrics)
        remaining = (self._num_steps - step) * metrics["step_s"]
        line = f"step {step}/{self._num_steps}  {text}  ETA {units.duration(remaining)}"
        self._progress.update(self._task, measures=text)
        if not self._console.is_terminal:
            self.say(line)
        return line


def measures_of(metrics: Metrics) -> str:
    """The measures people watch, on one line."""
    rate, held_out = metrics["samples_per_s"], metrics.get("held_out_loss")
    measured = "" if held_out is None else f"held out {held_out:.4g}  "
    return (
        f"loss {metrics['loss']:.4g}  {measured}lr {metrics['lr']:.2g}  "
        f"grad {metrics['grad_norm']:.3g}  "
        f"{rate:,.{0 if rate >= 100 else 1}f} samples/s  data wait {metrics['data_wait_share']:.0%}"
    )
