"""Measures LeRobot's loader on the same data, in another Python environment."""

from dataclasses import asdict, dataclass
from pathlib import Path

from manyhands_bench.lerobot import ask_lerobot

START_S = 300.0
"""How long the other Python may take to import LeRobot and open the dataset."""


@dataclass(frozen=True, kw_only=True)
class ReferenceRequest:
    """The request to LeRobot's loader."""

    repo_id: str
    root: str
    episodes: list[int]
    delta_timestamps: dict[str, list[float]]
    """Windows by the dataset's own names."""
    batch_size: int
    num_workers: int
    seconds: float
    warm_up_s: float


def measure_reference(python: Path, request: ReferenceRequest) -> float:
    """Samples per second of LeRobot's loader."""
    timeout_s = START_S + request.warm_up_s + request.seconds
    answer = ask_lerobot(python, "manyhands_bench.loader", "loader", asdict(request), timeout_s)
    rate: float = answer["samples_per_s"]
    return rate
