"""Does with LeRobot what it is asked to; run by a Python that has LeRobot installed.

A question is a line of JSON at standard input: `do` names a task, all else are its arguments. The
answer is a line at standard output: `answer`, or `error` with a traceback. Tensors lie in files.
"""

import json
import logging
import os
import sys
import traceback
import warnings
from importlib import metadata
from typing import Any, TextIO

import lerobot_data
import lerobot_evaluation
import lerobot_policy
import lerobot_smolvla
import lerobot_tracking
import lerobot_training

PACKAGES = ("lerobot", "torch", "diffusers", "transformers", "peft", "av")


def versions() -> dict[str, str]:
    """What is installed here."""
    return {name: metadata.version(name) for name in PACKAGES}


TASKS = {
    task.__name__: task
    for task in (
        versions,
        lerobot_data.read_items,
        lerobot_data.record,
        lerobot_data.merge,
        lerobot_data.convert_frames,
        lerobot_data.compute_camera_stats,
        lerobot_policy.create_policy,
        lerobot_policy.evaluate_policy,
        lerobot_evaluation.act_in_pusht,
        lerobot_smolvla.complete_vlm,
        lerobot_smolvla.evaluate_smolvla,
        lerobot_smolvla.create_adapters,
        lerobot_smolvla.evaluate_adapters,
        lerobot_tracking.track,
        lerobot_training.train,
        lerobot_training.read_train_config,
    )
}


def main() -> None:
    """Answer until standard input ends."""
    # Libraries print where they like; only answers may reach the real standard output.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        _answer(json.loads(line), answers)


def _answer(question: dict[str, Any], answers: TextIO) -> None:
    try:
        reply = {"answer": TASKS[question.pop("do")](**question)}
    # Whatever goes wrong belongs in the report of the test that asked.
    except Exception:
        reply = {"error": traceback.format_exc()}
    answers.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    main()
