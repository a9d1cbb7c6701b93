"""The command line of a recorder."""

import argparse
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from manyhands.cli.main import run_guarded
from manyhands.demo.demo import FIRST_RECORDED_SEED
from manyhands.lerobot_format.dataset.info import read_info


def recorder_flags(description: str | None, num_episodes: int) -> argparse.ArgumentParser:
    """The flags that all recorders take."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, required=True, help="folder for the dataset")
    text = "episodes to record (default: %(default)s)"
    parser.add_argument("--episodes", type=positive, default=num_episodes, help=text)
    # Recorded episodes are never among those that evaluation starts, from seed 1000 on.
    text = "seed of the first episode; each other one has the next seed (default: %(default)s)"
    parser.add_argument("--seed", type=positive, default=FIRST_RECORDED_SEED, help=text)
    return parser


def positive(text: str) -> int:
    """A number from 1."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} must be at least 1")
    return number


def video_size(text: str) -> int:
    """The height or width of a video."""
    size = positive(text)
    if size % 2 or size < 4:
        raise argparse.ArgumentTypeError(f"{size} does not fit: video needs even sizes from 4")
    return size


def record_guarded(
    parser: argparse.ArgumentParser, record: Callable[[argparse.Namespace], str]
) -> None:
    """Record as the flags ask, then name the recipe of the dataset, which `record` returns.

    Usage errors are messages, and exit code 2.
    """

    def command(_: object) -> int:
        asked = parser.parse_args()
        recipe = record(asked)
        info = read_info(asked.root)
        print(f"Recorded {info.total_episodes} episodes, {info.total_frames} frames: {asked.root}")
        print(f"Train: {train_command(recipe, asked.root)}")
        return 0

    sys.exit(run_guarded(command, ()))


def train_command(recipe: str, root: Path) -> str:
    """The command that trains by a recipe of this folder on a dataset."""
    config = os.path.relpath(Path(__file__).with_name(f"{recipe}.yaml"))
    flags = (f"--config_path={config}", f"--dataset.root={root}", f"--output_dir=outputs/{recipe}")
    return shlex.join(["manyhands", "train", *flags])
