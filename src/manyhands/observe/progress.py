"""A progress bar for long work, on a terminal only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

OnProgress = Callable[[int, int], None]
"""Called with the amounts done and total."""


@contextmanager
def progress_bar(doing: str) -> Iterator[OnProgress]:
    """A bar that appears with the first progress and disappears at the end."""
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
