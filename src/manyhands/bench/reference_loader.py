"""LeRobot's own loader, measured. Runs in another environment, by a Python that has LeRobot.

Reads a JSON object from standard input and prints one: the samples per second.
"""

import importlib
import json
import sys
import time
from typing import Any


def main() -> None:
    """Measure as the request says."""
    request = json.load(sys.stdin)
    rate = measure(request)
    print(json.dumps({"samples_per_s": rate}))


def measure(request: dict[str, Any]) -> float:
    """Samples per second of a shuffled loader, set up as LeRobot's training does."""
    from torch.utils.data import DataLoader

    module = importlib.import_module("lerobot.datasets.lerobot_dataset")
    dataset = module.LeRobotDataset(
        request["repo_id"], root=request["root"], delta_timestamps=request["delta_timestamps"]
    )
    loader: Any = DataLoader(
        dataset,
        batch_size=request["batch_size"],
        shuffle=True,
        num_workers=request["num_workers"],
        prefetch_factor=4 if request["num_workers"] else None,
    )
    batches = endless(loader)
    wait_until = time.perf_counter() + request["warm_up_s"]
    next(batches)
    while time.perf_counter() < wait_until:
        next(batches)
    started, num_batches = time.perf_counter(), 0
    while time.perf_counter() - started < request["seconds"]:
        next(batches)
        num_batches += 1
    return float(num_batches * request["batch_size"] / (time.perf_counter() - started))


def endless(loader: Any) -> Any:
    """One epoch after the other."""
    while True:
        yield from loader


if __name__ == "__main__":
    main()
