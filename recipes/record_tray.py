"""Record episodes of the built-in task's scripted expert, with camera video.

    python recipes/record_tray.py --root=data/tray [--episodes=250] [--size=96] [--seed=1000000]

A policy that reads the camera needs --policy.input_features without the environment state, as in
recipes/act_tray.yaml.
"""

import argparse

from recording import positive, record_guarded, recorder_flags

from manyhands.demo.demo import record_dataset


def flags() -> argparse.ArgumentParser:
    """The flags of this recorder."""
    parser = recorder_flags(__doc__, num_episodes=250)
    parser.add_argument("--size", type=positive, default=96, help="height and width of images")
    return parser


def record(asked: argparse.Namespace) -> None:
    """Record."""
    record_dataset(asked.root, range(asked.seed, asked.seed + asked.episodes), asked.size)


if __name__ == "__main__":
    record_guarded(flags(), record)
