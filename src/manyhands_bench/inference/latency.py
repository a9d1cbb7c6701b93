"""Latency of a policy's predictions, and of LeRobot's."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from manyhands.config.train import TrainConfig
from manyhands.evaluation.evaluate import tf32_on_gpu
from manyhands.lerobot_format.names import ACTION
from manyhands.lerobot_format.policy.folder import PolicyFiles
from manyhands.policies.load import choose_device
from manyhands.policies.policy import Policy
from manyhands.policies.synthetic import synthetic_batch, synthetic_stats, with_synthetic_features
from manyhands.training.setup.assemble import build_initial_policy
from manyhands.types import Batch
from manyhands_bench.config import BenchInferenceConfig
from manyhands_bench.lerobot import ask_lerobot
from manyhands_bench.step.reference import START_S, UPDATE_S, task_of
from manyhands_bench.step.subject import tensor_shapes


@dataclass(frozen=True, kw_only=True)
class LatencyRow:
    """Latency of one batch size."""

    batch_size: int
    median_ms: float
    p90_ms: float
    reference_median_ms: float | None = None


@dataclass(frozen=True, kw_only=True)
class InferenceResult:
    """All rows, and where they were measured."""

    policy: str
    device: str
    rows: list[LatencyRow]

    def as_json(self) -> dict[str, Any]:
        """The result for programs."""
        return asdict(self)


def bench_inference(bench: BenchInferenceConfig, config: TrainConfig) -> InferenceResult:
    """Time a policy's predictions on this device."""
    assert config.policy is not None
    settings = with_synthetic_features(config.policy.without_downloads(), bench)
    device = choose_device(settings.device, None)
    config = replace(config, policy=settings)
    policy, _ = build_initial_policy(config, synthetic_stats(settings), device)
    rows = [latency_row(policy.eval(), size, bench) for size in bench.batch_sizes]
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    return InferenceResult(policy=settings.type, device=name, rows=rows)


def latency_row(policy: Policy, batch_size: int, bench: BenchInferenceConfig) -> LatencyRow:
    """The latency for a number of observations at once."""
    observation = observation_of(policy, batch_size)
    with tf32_on_gpu(policy.device):
        times = chunk_times(lambda: policy.predict_action_chunk(observation), bench)
    row = LatencyRow(
        batch_size=batch_size,
        median_ms=1e3 * median(times),
        p90_ms=1e3 * float(np.quantile(times, 0.9)),
    )
    if bench.against is None:
        return row
    reference = reference_times(bench.against, policy, observation, bench)
    return replace(row, reference_median_ms=1e3 * median(reference))


def observation_of(policy: Policy, batch_size: int) -> Batch:
    """A synthetic observation in host memory."""
    batch = synthetic_batch(policy.config, batch_size, torch.device("cpu"))
    return {name: value for name, value in batch.items() if not name.startswith(ACTION)}


def chunk_times(predict: Callable[[], Any], bench: BenchInferenceConfig) -> list[float]:
    """Seconds of each prediction; its actions are in host memory at the end."""
    for _ in range(bench.warm_up):
        predict()
    marks = [time.perf_counter()]
    for _ in range(bench.num_chunks):
        predict()
        marks.append(time.perf_counter())
    return [end - start for start, end in pairwise(marks)]


def reference_times(
    python: Path, policy: Policy, observation: Batch, bench: BenchInferenceConfig
) -> list[float]:
    """Seconds of each of LeRobot's predictions."""
    with tempfile.TemporaryDirectory() as folder:
        settings = replace(policy.config, device=policy.device.type)
        PolicyFiles(settings, policy.processors, {}).write(Path(folder))
        request = {
            "folder": folder,
            "device": str(policy.device),
            "shapes": frame_shapes(policy, observation),
            "task": task_of(policy.config),
            "num_chunks": bench.num_chunks,
            "warm_up": bench.warm_up,
        }
        timeout_s = START_S + UPDATE_S * (bench.warm_up + bench.num_chunks)
        answer = ask_lerobot(python, "manyhands_bench.inference", "inference", request, timeout_s)
    times: list[float] = answer["chunk_s"]
    return times


def frame_shapes(policy: Policy, observation: Batch) -> dict[str, Any]:
    """Type and shape of the latest observation alone: LeRobot's policies hold the history."""
    shapes = tensor_shapes(
        {name: observation[name] for name in policy.config.input_features if name in observation}
    )
    if policy.config.observation_offsets is None:
        return dict(shapes)
    return {name: (kind, (shape[0], *shape[2:])) for name, (kind, shape) in shapes.items()}
