"""The process that evaluates a snapshot of a run: `python -m`, with a request on stdin."""

import pickle
import sys
from typing import TYPE_CHECKING

from manyhands.launch.background import lower_priority

if TYPE_CHECKING:
    from manyhands.config.commands.eval import EvalCommandConfig


def main() -> None:
    """Read a request, evaluate, leave the results in files."""
    lower_priority()
    config: EvalCommandConfig = pickle.load(sys.stdin.buffer)
    from manyhands.evaluation.run import run_evaluation

    run_evaluation(config)


if __name__ == "__main__":
    main()
