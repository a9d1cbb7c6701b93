"""`manyhands eval --compare`: which of two policies is better, if that can be said."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from manyhands.cli.flags import write_results
from manyhands.config.commands.eval import EvalCommandConfig
from manyhands.observe.wrapping import print_on

if TYPE_CHECKING:
    from manyhands.evaluation.comparison_run import ComparedPolicies


def compare_finished(config: EvalCommandConfig) -> int:
    """Compare two results from files; return the exit code."""
    from manyhands.evaluation.comparison_run import compare_files

    return report(config, compare_files(config))


def compare_policies(config: EvalCommandConfig) -> int:
    """Evaluate two policies on the same seeds; return the exit code."""
    from manyhands.evaluation.comparison_run import run_comparison

    compared = run_comparison(config)
    return 0 if compared is None else report(config, compared)


def report(config: EvalCommandConfig, compared: "ComparedPolicies") -> int:
    """Print a comparison and write it as JSON; return the exit code."""
    show_comparison(compared, Console(highlight=False, soft_wrap=True))
    write_results(config.json, compared.document())
    if compared.fault is not None:
        raise compared.fault
    return 0


def show_comparison(compared: "ComparedPolicies", console: Console) -> None:
    """Print both rates, their difference and the verdict."""
    found = compared.comparison
    pairs = found.pairs
    table = Table("quantity", "A", "B", "B - A [95 %]")
    rate_a, rate_b = pairs.rates
    low, high = pairs.interval
    change = f"{pairs.difference:+.1%} [{low:+.1%}, {high:+.1%}]"
    table.add_row("success", f"{rate_a:.1%}", f"{rate_b:.1%}", change)
    table.add_row("only one succeeds", str(pairs.only_a), str(pairs.only_b), "")
    low, high = found.reward_interval
    change = f"{found.reward_difference:+.3f} [{low:+.3f}, {high:+.3f}]"
    table.add_row("mean maximum reward", *(f"{each:.3f}" for each in found.mean_rewards), change)
    table.add_row("episodes", *[f"{pairs.num_episodes}"] * 2, "")
    console.print(table)
    print_on(console, found.verdict)
    if compared.num_crashed:
        print_on(console, f"WARNING: {compared.num_crashed} episodes crashed and count as failures")
    for letter, name in zip("AB", compared.names, strict=True):
        print_on(console, f"{letter}: {name}")
    if compared.output_dir is not None and compared.fault is None:
        print_on(console, f"results: {compared.output_dir}")
