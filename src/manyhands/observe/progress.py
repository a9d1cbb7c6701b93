"""A bar for work that takes a while: on a terminal only, once there is something to show."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

OnProgress = Callable[[int, int], None]
"""Told how much is done, and of how much."""


@contextmanager
def progress_bar(doing: str) -> Iterator[OnProgress]:
    """A bar that appears with the first progress and goes with the last."""
    console = Console(stderr=True)
    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = not console.is_terminal
    progress = Progress(*columns, console=console, transient=True, disable=hidden)
    task = progress.add_task(doing, total=None)

    def on_progress(done: int, total: int) -> None:
        progress.start()
        progress.update(task, completed=done, total=total)

    try:
        yield on_progress
    finally:
        progress.stop()
