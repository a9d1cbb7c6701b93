"""`manyhands eval --dataset.root`: predicted against recorded actions."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from manyhands.cli.flags import write_results
from manyhands.config.commands.eval import EvalCommandConfig
from manyhands.observe.wrapping import print_on

if TYPE_CHECKING:
    from manyhands.evaluation.open_loop_run import OpenLoopEvaluation

PLOT = "open_loop.png"
NUM_TIMES = 6


def evaluate_open_loop(config: EvalCommandConfig) -> int:
    """Evaluate on recorded episodes; return the exit code."""
    from manyhands.evaluation.open_loop_run import run_open_loop
    from manyhands.evaluation.results_folder import writing
    from manyhands.report.runs.open_loop_plot import write_open_loop_plot

    evaluation = run_open_loop(config)
    if evaluation is None:
        return 0
    console = Console(highlight=False, soft_wrap=True)
    show_errors(evaluation, console)
    write_results(config.json, evaluation.document())
    if evaluation.fault is not None:
        raise evaluation.fault
    with writing(evaluation.output_dir):
        missing = write_open_loop_plot(evaluation.output_dir / PLOT, evaluation)
    if missing:
        print_on(console, missing)
    return 0


def show_errors(evaluation: "OpenLoopEvaluation", console: Console) -> None:
    """Print the errors by joint and by time ahead, and where results lie."""
    found = evaluation.document()
    joints = Table("joint", "mean absolute error", "root mean square error")
    for row in [*found["joints"], {"name": "all"} | found]:
        joints.add_row(row["name"], *_errors(row))
    console.print(joints)
    times = Table("steps ahead", "seconds", "mean absolute error", "root mean square error")
    ahead = found["time_ahead"]
    last = len(ahead) - 1
    for place in sorted({round(last * part / (NUM_TIMES - 1)) for part in range(NUM_TIMES)}):
        row = ahead[place]
        times.add_row(str(row["step"]), f"{row['seconds']:.2f}", *_errors(row))
    console.print(times)
    episodes = len(found["episodes"])
    print_on(
        console,
        f"{found['num_samples']} predictions in {episodes} episodes, {evaluation.choice}",
    )
    print_on(console, f"policy:  {evaluation.policy_folder}")
    if evaluation.fault is None:
        print_on(console, f"results: {evaluation.output_dir}")


def _errors(row: dict[str, float]) -> list[str]:
    return [f"{row[name]:.4g}" for name in ("mean_absolute_error", "root_mean_square_error")]
