"""The line that shows the progress of a run, fitted to the width of the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from manyhands import units

Metrics = dict[str, float]

MIN_BAR_WIDTH, MAX_BAR_WIDTH = 8, 40
GAP = 2
ECHO = len("^C")  # What a terminal prints at the end of the line: it must not begin another one.
MARGIN = ECHO + 1  # Some terminals wrap at the last column.
ORDER = ("loss", "held_out", "open_loop", "lr", "grad", "rate", "data_wait", "eta")
REQUIRED = ("loss", "rate", "eta")
OPTIONAL = ("held_out", "data_wait", "lr", "grad", "open_loop")
"""What else is shown where there is room, most important first."""
SHORTER = (("step ", ""), (" samples/s", "/s"))


@dataclass
class ProgressLine:
    """Step, metrics and time left on one line."""

    num_steps: int
    step: int
    metrics: Metrics = field(default_factory=dict)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width - MARGIN
        texts = self.texts(width)
        cells: list[RenderableType] = [Text(text) for text in texts]
        bar_width = min(width - _width(texts) - GAP - ECHO, MAX_BAR_WIDTH)
        if bar_width >= MIN_BAR_WIDTH:
            cells.insert(1, ProgressBar(self.num_steps, self.step, width=bar_width))
        grid = Table.grid(*(Column(no_wrap=True) for _ in cells), padding=(0, GAP, 0, 0))
        grid.add_row(*cells)
        yield grid

    def texts(self, width: int) -> list[str]:
        """The texts that fit, in the order they are shown in; those required in any case."""
        known = metric_texts(self.metrics) | self._eta()
        step, shown = f"step {self.step}/{self.num_steps}", {*REQUIRED}

        def line() -> list[str]:
            return [step, *(known[name] for name in ORDER if name in shown & {*known})]

        if _width(line()) > width:
            return [_shorter(text) for text in line()]
        room_for_bar = MIN_BAR_WIDTH + GAP + ECHO
        for name in OPTIONAL:
            shown.add(name)
            if _width(line()) + room_for_bar > width:
                shown.remove(name)
        return line()

    def _eta(self) -> dict[str, str]:
        if "step_s" not in self.metrics:
            return {}
        return {"eta": eta(self.num_steps - self.step, self.metrics["step_s"])}


def eta(num_steps: int, step_s: float) -> str:
    """The time that steps will take."""
    return f"ETA {units.duration(num_steps * step_s)}"


FORMATS = {
    "loss": ("loss", "loss {:.4g}"),
    "held_out_loss": ("held_out", "held-out loss {:.4g}"),
    "open_loop_error": ("open_loop", "open-loop error {:.4g}"),
    "lr": ("lr", "lr {:.2g}"),
    "grad_norm": ("grad", "grad {:.3g}"),
    "data_wait_share": ("data_wait", "data wait {:.0%}"),
}


def metric_texts(metrics: Metrics) -> dict[str, str]:
    """The main metrics as they are shown, by their short names."""
    texts = {
        short: text.format(metrics[name])
        for name, (short, text) in FORMATS.items()
        if name in metrics
    }
    if "samples_per_s" in metrics:
        rate = metrics["samples_per_s"]
        texts["rate"] = f"{rate:,.{0 if rate >= 100 else 1}f} samples/s"
    return texts


def metrics_line(metrics: Metrics) -> str:
    """The main metrics on one line."""
    texts = metric_texts(metrics)
    return "  ".join(texts[name] for name in ORDER if name in texts)


def _shorter(text: str) -> str:
    for long, short in SHORTER:
        text = text.replace(long, short)
    return text


def _width(texts: Sequence[str]) -> int:
    return sum(map(len, texts)) + GAP * (len(texts) - 1)
