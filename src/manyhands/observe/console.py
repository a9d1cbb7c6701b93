"""Console output of a run: a progress bar on a terminal, plain lines elsewhere."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from manyhands.observe.progress_line import Metrics, ProgressLine, eta, metrics_line
from manyhands.observe.progress_lines import ProgressLines
from manyhands.observe.wrapping import print_on

REFRESH_S = 1.0
SMOOTHING = 0.8
SPEED = ("step_s", "samples_per_s")


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
        self._line = ProgressLine(num_steps, step)
        self._first_step = step + 1
        self._live = Live(self._line, console=self._console, refresh_per_second=4)
        self._next_look = 0.0

    def __enter__(self) -> "Display":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def print_line(self, text: str) -> None:
        """Print a line above the progress."""
        print_on(self._console, text)

    @property
    def wants_metrics(self) -> bool:
        """Whether the metrics on the terminal are a second old."""
        return self._console.is_terminal and time.monotonic() >= self._next_look

    @property
    def step(self) -> int:
        """The last step that was done."""
        return self._line.step

    def advance(self, step: int) -> None:
        """Show that a step is done."""
        self._line.step = step

    def refresh(self, metrics: Metrics) -> None:
        """Show the metrics of the last second, its speed smoothed."""
        shown, metrics = self._line.metrics, self._steady(metrics)
        speed = {
            name: SMOOTHING * shown[name] + (1 - SMOOTHING) * metrics[name]
            for name in SPEED
            if name in shown and name in metrics
        }
        self._line.metrics = {**shown, **metrics, **speed}
        self._next_look = time.monotonic() + REFRESH_S

    def measure(self, step: int, metrics: Metrics) -> str:
        """Show the metrics of a step and return them as a line."""
        self.advance(step)
        metrics = self._steady(metrics)
        self._line.metrics = {**self._line.metrics, **metrics}
        num_steps = self._line.num_steps
        line = f"step {step}/{num_steps}  {metrics_line(metrics)}"
        if "step_s" in metrics:
            line += f"  {eta(num_steps - step, metrics['step_s'])}"
        if not self._console.is_terminal:
            self.print_line(line)
        return line

    def _steady(self, metrics: Metrics) -> Metrics:
        """The metrics; those of the first step, which prepares the device, without a speed."""
        if self._line.step > self._first_step:
            return metrics
        return {name: value for name, value in metrics.items() if name not in SPEED}


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
