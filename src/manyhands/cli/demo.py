"""`manyhands demo`: generate data, train a policy and write a report."""

from collections.abc import Sequence

from manyhands.cli.flags import read_config
from manyhands.config.commands.demo import DemoConfig

USAGE = """manyhands demo [--seed=N] [--fast]

Records episodes of a simulated arm that puts a block into a tray, trains ACT on them with several
processes, evaluates the policy before and after, and writes a report."""


def demo_command(arguments: Sequence[str]) -> int:
    """Run the demo; return the exit code."""
    config = read_config(DemoConfig, USAGE, arguments)
    from manyhands.demo.demo import run_demo

    return run_demo(config)
