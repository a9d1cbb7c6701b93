"""Real runs with a planted fault: the verdict names it and the flag that helps."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from manyhands.checkpoint.writer import CheckpointWriter
from manyhands.config.resolve import read_train_config
from manyhands.data.batches import read_batch
from manyhands.data.loading import stream
from manyhands.doctor.run import examine_run
from manyhands.observe.diagnosis import run_verdict
from manyhands.training.start import run_training

STEADY = ("--policy.dim_model=128", "--policy.dim_feedforward=512", "--batch_size=8")
"""Steps of tens of milliseconds, so that what surrounds them is a small fraction."""
SLEEPING = """
import os
import time
from mlp_policy.config import MlpConfig
from mlp_policy.network import MlpNetwork

class SleepyConfig(MlpConfig):
    type = "sleepy"

class SleepyNetwork(MlpNetwork):
    def forward(self, batch, draws):
        time.sleep(0.08 if os.environ.get("RANK") == "1" else 0.02)
        return super().forward(batch, draws)
"""
POINTS = "[manyhands.policies]\nsleepy = sleepy:SleepyConfig\n"
POINTS += "[manyhands.networks]\nsleepy = sleepy:SleepyNetwork\n"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of a step that share too few cores make its time a matter of chance."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(run_dir: Path, argv: list[str]) -> dict[str, str]:
    """Train; return remedies by kind, which run.json and the doctor agree on."""
    run_training(read_train_config(argv))
    return remedies(run_dir)


def remedies(run_dir: Path) -> dict[str, str]:
    kept = json.loads((run_dir / "run.json").read_text())["diagnoses"]
    examined = examine_run(run_dir)
    assert examined.verdict.lines, "too few rows"
    assert json.loads(json.dumps(examined.as_json()))["diagnoses"] == kept
    return {each["kind"]: each["remedy"] for each in kept}


def log_of(run_dir: Path) -> str:
    return (run_dir / "log.txt").read_text()


def test_a_healthy_run_gets_no_diagnosis(command, tmp_path, metrics):
    run_dir = tmp_path / "run"
    flags = ("--steps=60", "--log_freq=1", "--save_freq=0", *STEADY)
    assert trained(run_dir, command.argv(run_dir, *flags)) == {}
    assert "Diagnosis: no problem found" in log_of(run_dir)
    row = metrics(run_dir)[60]
    phases_s = [row[f"{phase}_s"] for phase in ("forward", "backward", "optimizer")]
    assert min(phases_s) > 0 and 0.5 * row["update_s"] < sum(phases_s) < row["update_s"]
    assert not {"copy_s", "communication_s", "gpu_utilization"} & set(row)


def test_slow_decoding_is_found(command, tmp_path, monkeypatch):
    def slow_read(*arguments: Any) -> Any:
        time.sleep(0.05)
        return read_batch(*arguments)

    monkeypatch.setattr(stream, "read_batch", slow_read)
    run_dir = tmp_path / "run"
    found = trained(run_dir, command.argv(run_dir, "--steps=20", "--log_freq=2", "--batch_size=8"))
    assert set(found) == {"decode_bound"}
    assert "--num_workers=" in found["decode_bound"] or "--cache.mode=" in found["decode_bound"]
    assert "of each step waits for data" in log_of(run_dir)


def test_saving_too_often_is_found(command, tmp_path, monkeypatch):
    write = CheckpointWriter.write

    def slow_write(*arguments: Any) -> None:
        time.sleep(0.2)
        write(*arguments)

    monkeypatch.setattr(CheckpointWriter, "write", slow_write)
    run_dir = tmp_path / "run"
    flags = ("--steps=12", "--log_freq=1", "--save_freq=1", "--keep_last=1", "--batch_size=8")
    found = trained(run_dir, command.argv(run_dir, *flags))
    assert set(found) == {"checkpoint_bound"}
    assert "--save_freq=" in found["checkpoint_bound"]


def test_a_loss_that_oscillates_is_found(command, tmp_path):
    run_dir = tmp_path / "run"
    flags = ("--steps=80", "--log_freq=1", "--save_freq=0", "--batch_size=8")
    learning = ("--optimizer.type=sgd", "--optimizer.lr=0.2")
    found = trained(run_dir, command.argv(run_dir, *flags, *learning))
    assert "--optimizer.lr=" in found["loss_oscillating"]


def test_the_verdict_is_logged_during_training_when_it_changes(command, tmp_path, monkeypatch):
    monkeypatch.setattr(run_verdict, "PERIOD_S", 0.0)
    run_dir = tmp_path / "run"
    flags = ("--steps=30", "--log_freq=1", "--save_freq=0", *STEADY)
    run_training(read_train_config(command.argv(run_dir, *flags)))
    lines = [line for line in log_of(run_dir).splitlines() if "Diagnosis:" in line]
    assert 1 <= len(lines) < 10


@pytest.mark.process
def test_one_slow_rank_is_found_and_named(command, tiny_dataset, tmp_path):
    package = tmp_path / "sleepy-1.0.dist-info"
    package.mkdir()
    (tmp_path / "sleepy.py").write_text(SLEEPING)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: sleepy\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(POINTS)
    example = Path(__file__).resolve().parents[2] / "examples" / "mlp_policy"
    places = [str(tmp_path), str(example), os.environ.get("PYTHONPATH", "")]
    run_dir = tmp_path / "run"
    flags = [f"--dataset.root={tiny_dataset}", "--policy.type=sleepy", "--policy.device=cpu"]
    flags += ["--num_workers=0", "--steps=20", "--log_freq=2", "--launch.num_processes=2"]
    program = [sys.executable, "-m", "manyhands", "train", *flags, f"--output_dir={run_dir}"]
    command.run(program, changes={"PYTHONPATH": os.pathsep.join(places)})
    assert set(remedies(run_dir)) == {"straggler"}
    told = json.loads((run_dir / "run.json").read_text())["diagnoses"]
    (text,) = (each["text"] for each in told if each["kind"] == "straggler")
    assert "rank 1 (" in text and text.endswith("is in forward")
    ranks = [json.loads(row) for row in (run_dir / "ranks.jsonl").open()]
    assert {row["rank"] for row in ranks} == {0, 1}
    waits = [row["communication_s"] for row in ranks if row["rank"] == 0 and row["step"] > 4]
    assert min(waits) > 0.02


def on_a_gpu(test: Any) -> Any:
    """Needs a GPU to itself."""
    test = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")(test)
    return pytest.mark.gpu_serial(pytest.mark.gpu(test))


@on_a_gpu
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_rows_of_a_gpu_run_have_the_phases_of_a_step_and_the_load(command, tmp_path, metrics, mode):
    run_dir = tmp_path / "run"
    flags = ("--policy.device=cuda", "--steps=200", "--log_freq=50", f"--step.mode={mode}")
    run_training(read_train_config(command.argv(run_dir, *flags)))
    row = metrics(run_dir)[200]
    device_s = [row[f"{phase}_s"] for phase in ("forward", "backward", "optimizer")]
    assert min(device_s) > 0 and sum(device_s) < 1.5 * row["step_s"]
    assert row["copy_s"] > 0 and "communication_s" not in row
    assert 0 <= row["gpu_utilization"] <= 1 and 0 < row["gpu_memory_share"] < 1


@on_a_gpu
def test_a_tiny_batch_on_a_gpu_is_found(command, tmp_path):
    run_dir = tmp_path / "run"
    flags = ("--policy.device=cuda", "--batch_size=1", "--steps=2400", "--log_freq=200")
    eager = ("--step.mode=eager", "--save_freq=0")
    found = trained(run_dir, command.argv(run_dir, *flags, *eager))
    assert found["launch_bound"] == "Set --step.mode=auto"
