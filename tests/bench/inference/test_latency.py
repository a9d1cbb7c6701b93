"""Latency of chunks, ours and LeRobot's, by real policies."""

import sys
from pathlib import Path

import pytest
import torch

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.train import TrainConfig
from manyhands.errors import UserError
from manyhands.policies.build import build_policy
from manyhands.policies.synthetic import synthetic_stats, with_synthetic_features
from manyhands_bench.config import BenchInferenceConfig
from manyhands_bench.inference.latency import (
    bench_inference,
    chunk_times,
    frame_shapes,
    observation_of,
)

TINY = ActConfig(
    dim_model=16,
    n_heads=2,
    dim_feedforward=16,
    n_encoder_layers=1,
    chunk_size=5,
    n_action_steps=5,
    device="cpu",
    pretrained_backbone_weights=None,
)
BENCH = BenchInferenceConfig(
    cameras=0, state_dim=3, action_dim=2, batch_sizes=[1, 3], num_chunks=4, warm_up=3
)


def test_every_batch_size_has_a_row():
    result = bench_inference(BENCH, TrainConfig(policy=TINY))
    assert [row.batch_size for row in result.rows] == [1, 3]
    assert all(0 < row.median_ms <= row.p90_ms for row in result.rows)
    assert result.as_json()["rows"][0]["reference_median_ms"] is None


def test_warm_up_is_not_timed():
    calls = []
    assert len(chunk_times(lambda: calls.append(1), BENCH)) == 4
    assert len(calls) == 7


@pytest.mark.parametrize("config", [TINY, DiffusionConfig(pretrained_backbone_weights=None)])
def test_lerobot_gets_the_latest_observation_alone(config):
    config = with_synthetic_features(config, BENCH)
    policy = build_policy(config, synthetic_stats(config))
    shapes = frame_shapes(policy, observation_of(policy, 2))
    assert shapes["observation.state"] == ("float32", (2, 3))
    assert not any(name.startswith("action") for name in shapes)


def test_a_python_without_lerobot_is_told(tmp_path):
    bench = BenchInferenceConfig(**{**vars(BENCH), "against": Path(sys.executable)})
    with pytest.raises(UserError, match=r"LeRobot's inference failed: .*lerobot"):
        bench_inference(bench, TrainConfig(policy=TINY))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_is_measured_too():
    result = bench_inference(BENCH, TrainConfig(policy=ActConfig(**{**vars(TINY), "device": None})))
    assert result.device == torch.cuda.get_device_name()
