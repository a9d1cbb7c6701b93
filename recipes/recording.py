"""The command line of a recorder."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from manyhands.cli.main import run_guarded
from manyhands.demo.demo import FIRST_RECORDED_SEED


def recorder_flags(description: str | None, num_episodes: int) -> argparse.ArgumentParser:
    """The flags that all recorders take."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, required=True, help="folder for the dataset")
    parser.add_argument("--episodes", type=positive, default=num_episodes)
    # Recorded episodes are never among those that evaluation starts, from seed 1000 on.
    parser.add_argument("--seed", type=positive, default=FIRST_RECORDED_SEED)
    return parser


def positive(text: str) -> int:
    """A number from 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} must be at least 1")
    return number


def record_guarded(
    parser: argparse.ArgumentParser, record: Callable[[argparse.Namespace], None]
) -> None:
    """Record as the flags ask; usage errors are messages, and exit code 2."""

    def command(_: object) -> int:
        record(parser.parse_args())
        return 0

    sys.exit(run_guarded(command, ()))
