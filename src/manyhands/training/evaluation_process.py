"""The process that evaluates a snapshot of a run: `python -m`, with a request on stdin."""

import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from manyhands.launch.background import lower_priority

if TYPE_CHECKING:
    from manyhands.config.commands.eval import EvalCommandConfig
    from manyhands.evaluation.rollout_control import RolloutControl

GPU_SHARE = 1 / 15
"""Of the time, for predictions: while one runs, training has about half of the GPU."""
UNLIMITED = "unlimited"
"""A file of the snapshot's folder that says that training has ended."""


def main() -> None:
    """Read a request, evaluate, leave the results in files."""
    lower_priority()
    config: EvalCommandConfig = pickle.load(sys.stdin.buffer)
    from manyhands.evaluation.run import run_evaluation

    evaluation = run_evaluation(config, gentle_control(config))
    if evaluation is not None and evaluation.fault is not None:
        raise evaluation.fault


def gentle_control(config: "EvalCommandConfig") -> "RolloutControl":
    """Leave most of the time of a GPU to training; priorities of processes only hold for CPUs."""
    from manyhands.evaluation.rollout_control import LimitedUse, RolloutControl

    if config.policy.device == "cpu":
        return RolloutControl()
    assert config.policy.path is not None
    return RolloutControl(
        predicting=LimitedUse(GPU_SHARE, Path(config.policy.path, UNLIMITED).exists)
    )


if __name__ == "__main__":
    main()
