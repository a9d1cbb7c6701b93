"""Record episodes of the built-in task's scripted expert, with camera video.

    python recipes/record_tray.py --root=data/tray [--episodes=250] [--size=96] [--seed=1000000]

A policy that reads the camera needs --policy.input_features without the environment state, as in
recipes/act_tray.yaml.
"""

import argparse

from recording import record_guarded, recorder_flags, video_size

from manyhands.demo.demo import record_dataset


def flags() -> argparse.ArgumentParser:
    """The flags of this recorder."""
    parser = recorder_flags(__doc__, num_episodes=250)
    text = "height and width of images, even (default: %(default)s)"
    parser.add_argument("--size", type=video_size, default=96, help=text)
    return parser


def record(asked: argparse.Namespace) -> str:
    """Record."""
    record_dataset(asked.root, range(asked.seed, asked.seed + asked.episodes), asked.size)
    return "act_tray"


if __name__ == "__main__":
    record_guarded(flags(), record)
