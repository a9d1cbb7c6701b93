"""Console output of a run: a progress bar on a terminal, plain lines elsewhere."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from manyhands import units
from manyhands.observe.progress_lines import ProgressLines

Metrics = dict[str, float]


class Outlet:
    """Standard output that ignores a closed terminal, which must not end a run."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write; ignore a closed terminal."""
        try:
            return self._file.write(text)
        except OSError:
            self._give_up()
            return len(text)

    def flush(self) -> None:
        """Flush; ignore a closed terminal."""
        try:
            self._file.flush()
        except OSError:
            self._give_up()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def _give_up(self) -> None:
        """Redirect all further output to the null device."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._file.fileno())
        os.close(nowhere)


class Display:
    """Shows the progress of a run in steps."""

    def __init__(self, num_steps: int, step: int, console: Console | None = None) -> None:
        outlet = cast(IO[str], Outlet(sys.stdout))
        self._console = console or Console(file=outlet, highlight=False, soft_wrap=True)
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

    def print_line(self, text: str) -> None:
        """Print a line above the progress bar."""
        self._console.print(text, markup=False)

    def advance(self, step: int) -> None:
        """Move the progress bar to a step."""
        self._progress.update(self._task, completed=step)

    def measure(self, step: int, metrics: Metrics) -> str:
        """Show the metrics of a step and return them as a line."""
        text = metrics_line(metrics)
        remaining = (self._num_steps - step) * metrics["step_s"]
        line = f"step {step}/{self._num_steps}  {text}  ETA {units.duration(remaining)}"
        self._progress.update(self._task, measures=text)
        if not self._console.is_terminal:
            self.print_line(line)
        return line


def metrics_line(metrics: Metrics) -> str:
    """The main metrics on one line."""
    rate, held_out = metrics["samples_per_s"], metrics.get("held_out_loss")
    measured = "" if held_out is None else f"held-out loss {held_out:.4g}  "
    if "open_loop_error" in metrics:
        measured += f"open-loop error {metrics['open_loop_error']:.4g}  "
    return (
        f"loss {metrics['loss']:.4g}  {measured}lr {metrics['lr']:.2g}  "
        f"grad {metrics['grad_norm']:.3g}  "
        f"{rate:,.{0 if rate >= 100 else 1}f} samples/s  data wait {metrics['data_wait_share']:.0%}"
    )


OnProgress = Callable[[int, int], None]  # Called with the amounts done and total.


@contextmanager
def progress_bar(doing: str) -> Iterator[OnProgress]:
    """A bar that appears with the first progress and disappears at the end; lines in a log."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield ProgressLines(doing).show
        return
    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task(doing, total=None)

    def on_progress(done: int, total: int) -> None:
        progress.start()
        progress.update(task, completed=done, total=total)

    try:
        yield on_progress
    finally:
        progress.stop()
