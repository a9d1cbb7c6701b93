"""A picture of an open-loop evaluation: curves of episodes, and the error over time ahead."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from manyhands.atomic import atomic_file
from manyhands.evaluation.action_errors import ABSOLUTE
from manyhands.evaluation.open_loop_run import OpenLoopEvaluation, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_JOINTS = 8
COLORS = ("#0072b2", "#d55e00", "#009e73", "#b5518c", "#b98400", "#3a9bd6", "#6b7280", "#6f4aa0")
NEEDS_EXTRA = "The plot needs an extra. Install: pip install 'manyhands[report]'"
RECORDED, PREDICTED = "#8a8a8a", COLORS[1]


def write_open_loop_plot(path: Path, evaluation: OpenLoopEvaluation) -> str | None:
    """Write a PNG; return None, or a message that says what to install."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return NEEDS_EXTRA
    joints = evaluation.joints[:MAX_JOINTS]
    num_rows, num_columns = len(joints) + 1, max(1, len(evaluation.traces))
    figure = Figure(figsize=(7 * num_columns, 1.7 * num_rows + 1), dpi=100, layout="constrained")
    grid = figure.add_gridspec(num_rows, num_columns)
    fps = evaluation.dataset.fps
    for column, trace in enumerate(evaluation.traces):
        for row, name in enumerate(joints):
            axes = figure.add_subplot(grid[row, column])
            _draw_trace(axes, trace, row, fps)
            axes.set_ylabel(name)
            axes.set_xlabel("seconds" if row == len(joints) - 1 else "")
            if row == 0:
                axes.set_title(f"Episode {trace.episode}")
                axes.legend(loc="upper right", fontsize="small")
    _draw_errors(figure.add_subplot(grid[len(joints), :]), evaluation, joints)
    with atomic_file(path) as scratch:
        figure.savefig(scratch, format="png")
    return None


def _draw_trace(axes: "Axes", trace: Trace, joint: int, fps: float) -> None:
    times = np.arange(len(trace.recorded)) / fps
    axes.plot(times, trace.recorded[:, joint], color=RECORDED, linewidth=2, label="recorded")
    for number, (first, chunk) in enumerate(trace.chunks.items()):
        label = None if number else "predicted"
        ahead = (first + np.arange(len(chunk))) / fps
        axes.plot(ahead, chunk[:, joint], color=PREDICTED, linewidth=1.2, label=label)
        axes.plot(ahead[0], chunk[0, joint], color=PREDICTED, marker="o", markersize=3)
    axes.margins(x=0.01)


def _draw_errors(axes: "Axes", evaluation: OpenLoopEvaluation, joints: list[str]) -> None:
    errors = evaluation.errors
    steps = range(len(errors.counts))
    times = [step / evaluation.dataset.fps for step in steps]
    for place, name in enumerate(joints):
        values = [errors.of_joint_at_step(place, step)[ABSOLUTE] for step in steps]
        axes.plot(times, values, color=COLORS[place % len(COLORS)], label=name, marker=".")
    axes.set_xlabel("seconds ahead")
    axes.set_ylabel("mean absolute error")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", fontsize="small", ncols=2)
