"""The command: a table for people, JSON for programs, and usage errors."""

import json

import pytest
from rich.console import Console

from manyhands.errors import ConfigError
from manyhands_bench.inference.command import bench_inference_command, latency_table
from manyhands_bench.inference.latency import InferenceResult, LatencyRow

FLAGS = (
    "--policy.type=act",
    "--policy.dim_model=16",
    "--policy.n_heads=2",
    "--policy.dim_feedforward=16",
    "--policy.n_encoder_layers=1",
    "--policy.device=cpu",
    "--cameras=0",
    "--num_chunks=2",
    "--warm_up=3",
)


def test_results_are_written(tmp_path, capsys):
    file = tmp_path / "latency.json"
    assert bench_inference_command([*FLAGS, "--batch_sizes=[2]", f"--json={file}"]) == 0
    assert json.loads(file.read_text())["rows"][0]["batch_size"] == 2
    assert "median ms" in capsys.readouterr().out


def test_the_table_compares_with_lerobot():
    row = LatencyRow(batch_size=1, median_ms=2.0, p90_ms=3.0, reference_median_ms=9.0)
    console = Console(record=True, width=100)
    console.print(latency_table(InferenceResult(policy="act", device="CPU", rows=[row])))
    assert "4.5x" in console.export_text()


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--batch_sizes=[0]", r"--batch_sizes=\[0\] must be integers from 1"),
        ("--num_chunks=0", "--num_chunks=0 must be at least 1"),
        ("--warm_up=1", "--warm_up=1 must be at least 3"),
        ("--against=nowhere", "--against=nowhere is not a Python executable"),
        ("--dataset.root=data", "reads no dataset. Remove --dataset"),
    ],
)
def test_what_cannot_be_measured_is_refused(flag, told):
    with pytest.raises(ConfigError, match=told):
        bench_inference_command([*FLAGS, flag] if flag[2:9] != "dataset" else [*FLAGS[:6], flag])
