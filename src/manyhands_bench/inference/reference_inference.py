"""Times LeRobot's predictions. Runs in a Python environment that has LeRobot.

Reads a JSON object from standard input and prints one: the seconds of every prediction.
"""

import importlib
import json
import sys
import time
from itertools import pairwise
from typing import Any


def main() -> None:
    """Measure a request."""
    print(json.dumps({"chunk_s": measure(json.load(sys.stdin))}))


def measure(request: dict[str, Any]) -> list[float]:
    """Seconds from an observation in host memory to an action in host memory."""
    import torch

    if request["device"].startswith("cuda"):
        torch.cuda.set_device(torch.device(request["device"]))
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = True
    factory: Any = importlib.import_module("lerobot.policies.factory")
    kind: Any = importlib.import_module("lerobot.configs.policies").PreTrainedConfig
    config = kind.from_pretrained(request["folder"])
    config.device = request["device"].partition(":")[0]
    policy = factory.get_policy_class(config.type)(config).to(request["device"]).eval()
    before, after = factory.make_pre_post_processors(config, pretrained_path=request["folder"])
    observation = random_observation(request)

    def predict() -> None:
        # With an empty queue the policy predicts a chunk.
        policy.reset()
        with torch.inference_mode():
            after(policy.select_action(before(dict(observation)))).cpu()

    for _ in range(request["warm_up"]):
        predict()
    marks = [time.perf_counter()]
    for _ in range(request["num_chunks"]):
        predict()
        marks.append(time.perf_counter())
    return [end - start for start, end in pairwise(marks)]


def random_observation(request: dict[str, Any]) -> dict[str, Any]:
    """Random values; images are floats from 0 to 1, as LeRobot's evaluation has them."""
    import torch

    observation: dict[str, Any] = {
        name: (torch.rand if kind == "uint8" else torch.randn)(shape)
        for name, (kind, shape) in request["shapes"].items()
    }
    if request["task"] is not None:
        number = len(next(iter(observation.values())))
        observation["task"] = [request["task"]] * number
    return observation


if __name__ == "__main__":
    main()
