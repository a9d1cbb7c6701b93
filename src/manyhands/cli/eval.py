"""`manyhands eval`: roll out a policy in simulation."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from manyhands.cli.flags import read_config, write_results
from manyhands.config.eval import EvalCommandConfig

if TYPE_CHECKING:
    from manyhands.evaluation.run import Evaluation

USAGE = """manyhands eval --policy.path=RUN --env.type=pusht [--eval.n_episodes=500] [--json=FILE]

Runs episodes of a policy in simulation on all GPUs and reports its success rate with a 95 %
interval. The results are the same numbers for any number of processes and environments. Policies
trained by LeRobot are evaluated alike."""


def eval_command(arguments: Sequence[str]) -> int:
    """Evaluate a policy; return the exit code."""
    config = read_config(EvalCommandConfig, USAGE, arguments)
    from manyhands.launch.environment import current_launcher
    from manyhands.launch.workers import run_workers

    launcher = current_launcher()
    num_processes = config.launch.num_processes or default_processes(config)
    if num_processes > 1 and not launcher.started_ranks:
        command = [sys.executable, "-m", "manyhands", "eval", *arguments]
        return run_workers(num_processes, command).code
    from manyhands.evaluation.eval_info import as_json
    from manyhands.evaluation.run import run_evaluation

    evaluation = run_evaluation(config)
    if evaluation is None:
        return 0
    show(evaluation, Console(highlight=False, soft_wrap=True))
    write_results(config.json, as_json(evaluation.results, evaluation.seconds))
    return 0


def default_processes(config: EvalCommandConfig) -> int:
    """One process per GPU."""
    if config.policy.device not in (None, "cuda"):
        return 1
    from manyhands.parallel.world import num_visible_gpus

    return max(1, num_visible_gpus())


def show(evaluation: "Evaluation", console: Console) -> None:
    """Print the score, and where results lie."""
    from manyhands.evaluation.score import score

    total = score(evaluation.results)
    low, high = total.interval
    table = Table("quantity", "value")
    table.add_row("success", f"{total.success:.1%} [{low:.1%}, {high:.1%}]")
    table.add_row("mean maximum reward", f"{total.mean_max_reward:.3f}")
    table.add_row("mean sum of rewards", f"{total.mean_sum_reward:.1f}")
    table.add_row("mean length", f"{total.mean_length:.0f} steps")
    table.add_row("episodes", f"{total.num_episodes} in {evaluation.seconds:.1f} s")
    console.print(table)
    crashed = [result for result in evaluation.results if result.error]
    if crashed:
        console.print(
            f"WARNING: {len(crashed)} episodes crashed and count as failures; seed "
            f"{crashed[0].seed}: {crashed[0].error}"
        )
    console.print(f"policy:  {evaluation.policy_folder}")
    console.print(f"results: {evaluation.output_dir}")
