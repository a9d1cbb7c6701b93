"""Measures LeRobot's loader. Runs in a Python environment that has LeRobot.

Reads a JSON object from standard input and prints one: the samples per second.
"""

import importlib
import inspect
import json
import sys
import time
from typing import Any

MIN_BATCHES = 20
"""With fewer, prefetched batches would distort the rate."""


def main() -> None:
    """Measure a request."""
    request = json.load(sys.stdin)
    rate = measure(request)
    print(json.dumps({"samples_per_s": rate}))


def measure(request: dict[str, Any]) -> float:
    """Samples per second of a shuffled loader, set up as LeRobot's training does."""
    from torch.utils.data import DataLoader

    kind = importlib.import_module("lerobot.datasets.lerobot_dataset").LeRobotDataset
    # Training uses uint8 images if the release supports them.
    bytes_wanted = "return_uint8" in inspect.signature(kind.__init__).parameters
    dataset = kind(
        request["repo_id"],
        root=request["root"],
        episodes=request["episodes"],
        delta_timestamps=request["delta_timestamps"],
        **({"return_uint8": True} if bytes_wanted else {}),
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
    while time.perf_counter() - started < request["seconds"] or num_batches < MIN_BATCHES:
        next(batches)
        num_batches += 1
    return float(num_batches * request["batch_size"] / (time.perf_counter() - started))


def endless(loader: Any) -> Any:
    """One epoch after the other."""
    while True:
        yield from loader


if __name__ == "__main__":
    main()
