"""`manyhands demo`: from nothing to a trained policy and a report."""

from collections.abc import Sequence

from manyhands.config.demo import DemoConfig
from manyhands.config.flags import read_flags
from manyhands.config.help import help_text
from manyhands.config.schema import Decoder
from manyhands.errors import ConfigError

USAGE = """manyhands demo [--seed=N] [--fast]

Records episodes of a simulated arm that puts a block into a tray, trains ACT on them with several
processes, scores the policy before and after, and writes a report."""


def demo_command(arguments: Sequence[str]) -> int:
    """Run the demo as the arguments say; return the exit code."""
    command_line = read_flags(arguments)
    if "help" in command_line.switches:
        print(help_text(DemoConfig, USAGE))
        return 0
    decoder = Decoder(DemoConfig)
    config = decoder.section(DemoConfig, command_line.tree)
    if "print_config" in command_line.switches:
        decoder.faults.append("--print_config belongs to manyhands train")
    if decoder.faults:
        raise ConfigError(decoder.faults)
    from manyhands.demo.show import run_demo

    return run_demo(config)
