"""`manyhands eval`: a policy in simulation or on recorded episodes, or two policies compared."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from manyhands.cli.eval_compare import compare_finished, compare_policies
from manyhands.cli.eval_open_loop import evaluate_open_loop
from manyhands.cli.flags import read_config, write_results
from manyhands.config.commands.eval import EvalCommandConfig
from manyhands.config.schema.decoding import encode
from manyhands.observe.wrapping import print_on

if TYPE_CHECKING:
    from manyhands.evaluation.rollout import EpisodeResult
    from manyhands.evaluation.run import Evaluation
    from manyhands.evaluation.verdict import Band

USAGE = """manyhands eval --policy.path=RUN --env.type=pusht [--eval.n_episodes=500] [--json=FILE]
manyhands eval --policy.path=RUN --dataset.root=FOLDER [--dataset.episodes=[...]]
manyhands eval --compare A B --env.type=pusht [--eval.n_episodes=500]

Runs episodes of a policy in simulation on all GPUs and reports its success rate with a 95 %
interval. Without a simulator, compares the actions that it predicts with recorded ones. With
--compare, runs two policies on the same seeds, or reads two results, and says which is better.
The results are the same numbers for any number of processes and environments. Policies trained by
LeRobot are evaluated alike. --policy.<field> changes what predictions depend on, such as
--policy.n_action_steps, --policy.num_inference_steps or --policy.use_amp."""


def eval_command(arguments: Sequence[str]) -> int:
    """Evaluate as the flags ask; return the exit code."""
    config = read_config(EvalCommandConfig, USAGE, arguments)
    if config.compares_results:
        return compare_finished(config)
    from manyhands.launch.environment import current_launcher
    from manyhands.launch.workers import run_workers

    launcher = current_launcher()
    num_processes = config.launch.num_processes or default_processes(config)
    if num_processes > 1 and not launcher.started_ranks:
        command = [sys.executable, "-m", "manyhands", "eval", *arguments]
        return run_workers(num_processes, command).code
    if config.compare is not None:
        return compare_policies(config)
    return evaluate_open_loop(config) if config.dataset.is_named else evaluate_in_simulation(config)


def default_processes(config: EvalCommandConfig) -> int:
    """One process per GPU."""
    if config.policy.device not in (None, "cuda"):
        return 1
    from manyhands.parallel.world import num_visible_gpus

    return max(1, num_visible_gpus())


def evaluate_in_simulation(config: EvalCommandConfig) -> int:
    """Run episodes; return the exit code."""
    from manyhands.evaluation.eval_info import as_json
    from manyhands.evaluation.results_folder import named
    from manyhands.evaluation.run import run_evaluation

    console = Console(highlight=False, soft_wrap=True)
    evaluation = run_evaluation(
        config,
        on_finished=lambda episodes: show_score(episodes.results, episodes.seconds, console),
    )
    if evaluation is None:
        return 0
    expected = config.eval.expected_success
    show_files(evaluation, expected, console)
    results = as_json(evaluation.results, evaluation.seconds, expected)
    write_results(config.json, {"env": encode(config.env)} | named(config.job_name) | results)
    if evaluation.fault is not None:
        raise evaluation.fault
    return 0


def show_score(results: "Sequence[EpisodeResult]", seconds: float, console: Console) -> None:
    """Print the score of episodes."""
    from manyhands.evaluation.score import score

    total = score(results)
    low, high = total.interval
    table = Table("quantity", "value")
    table.add_row("success", f"{total.success:.1%} [{low:.1%}, {high:.1%}]")
    table.add_row("mean maximum reward", f"{total.mean_max_reward:.3f}")
    table.add_row("mean sum of rewards", f"{total.mean_sum_reward:.1f}")
    table.add_row("mean length", f"{total.mean_length:.0f} steps")
    table.add_row("episodes", f"{total.num_episodes} in {seconds:.1f} s")
    console.print(table)
    crashed = [result for result in results if result.error]
    if crashed:
        print_on(
            console,
            f"WARNING: {len(crashed)} episodes crashed and count as failures; seed "
            f"{crashed[0].seed}: {crashed[0].error}",
        )


def show_files(evaluation: "Evaluation", expected: "Band | None", console: Console) -> None:
    """Print where results lie, and the verdict."""
    from manyhands.evaluation.score import score
    from manyhands.evaluation.verdict import verdict_line

    if evaluation.warning is not None:
        print_on(console, f"WARNING: {evaluation.warning}")
    print_on(console, f"policy:  {evaluation.policy_folder}")
    if evaluation.fault is None:
        print_on(console, f"results: {evaluation.output_dir}")
    if expected is not None:
        print_on(console, verdict_line(score(evaluation.results), expected))
