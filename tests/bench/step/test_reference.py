"""LeRobot's updates, measured by another Python."""

import os
import sys
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from manyhands.config.launch.launcher import Launcher
from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.errors import ConfigError, UserError
from manyhands.lerobot_format.policy.folder import read_config
from manyhands.parallel.rendezvous import NoWatchdog, Rendezvous
from manyhands.parallel.world import World, indexed
from manyhands.stop import StopSignal
from manyhands_bench.step.reference import (
    LEROBOT,
    features_in,
    make_request,
    precisions_of,
    reference_rows,
    task_of,
    write_reference_policy,
)

FAKES = {
    "configs/policies.py": """
import json, pathlib
class Optimizer:
    grad_clip_norm = 1.0
    def build(self, params):
        import torch
        return torch.optim.SGD(params, lr=0.1)
class PreTrainedConfig:
    type = "act"
    @classmethod
    def from_pretrained(cls, folder):
        assert json.loads(pathlib.Path(folder, "config.json").read_text())["type"] == "act"
        return cls()
    def get_optimizer_preset(self):
        return Optimizer()
    def get_scheduler_preset(self):
        return None
""",
    "policies/factory.py": """
import torch
class Policy(torch.nn.Linear):
    def __init__(self, settings):
        super().__init__(2, 1)
    def forward(self, batch):
        assert batch["action"].shape == (4, 6, 2) and not batch["action_is_pad"].any()
        return super().forward(batch["action"]).sum(), {}
    def get_optim_params(self):
        return self.parameters()
def get_policy_class(kind):
    return Policy
def make_pre_post_processors(settings, pretrained_path):
    return (lambda batch: batch), None
""",
}


@pytest.fixture
def python(tmp_path, monkeypatch) -> Path:
    """A Python that finds a package by LeRobot's name."""
    for name, text in FAKES.items():
        file = tmp_path / "lerobot" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return Path(sys.executable)


def test_the_other_program_makes_as_many_updates_of_the_same_batch(open_subject, python):
    with open_subject() as (bench, subject, world):
        (row,) = reference_rows(python, subject, bench, world)
    assert (row.mode, row.precision) == (LEROBOT, "no")
    assert row.median_ms > 0 and row.setup_s > 0 and row.peak_memory_gib > 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_both_precisions_are_measured_on_a_gpu(open_subject, python):
    with open_subject("--policy.device=cuda") as (bench, subject, world):
        rows = reference_rows(python, subject, bench, world)
    assert {row.precision for row in rows} == {"no", "bf16"}


def test_the_requested_gpu_has_an_index(open_subject, monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    properties = SimpleNamespace(uuid="uuid", name="H200")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    device = indexed(torch.device("cuda"), Launcher())
    rendezvous = Rendezvous(NoWatchdog(), None, timedelta(), StopSignal(), ExitStack())
    with open_subject() as (bench, subject, on_cpu):
        on_gpu = World(Launcher(), device, "bf16", on_cpu.strategy, rendezvous)
        assert make_request("folder", subject, bench, on_gpu).device == "cuda:1"
        assert make_request("folder", subject, bench, on_cpu).device == "cpu"


def test_policies_that_read_are_told_as_much_as_they_can_read():
    assert task_of(ActConfig()) is None
    assert len((task_of(SmolVLAConfig()) or "").split()) == 48


def test_a_python_without_lerobot_is_told(open_subject):
    told = pytest.raises(UserError, match=r"LeRobot's step failed: .*lerobot")
    with open_subject() as (bench, subject, world), told:
        reference_rows(Path(sys.executable), subject, bench, world)


def test_the_policy_is_written_in_its_own_form(open_subject, tmp_path):
    with open_subject() as (_, subject, world):
        write_reference_policy(tmp_path, subject, "cuda")
        assert precisions_of(world, "float32") == ["no"]
        with pytest.raises(ConfigError, match="--dtype=float64"):
            precisions_of(world, "float64")
    assert read_config(tmp_path).input_features == subject.config.policy.input_features
    assert '"device": "cuda"' in (tmp_path / "policy_preprocessor.json").read_text()
    assert not (tmp_path / "model.safetensors").exists()


def test_what_the_policy_does_not_know_is_left_out(open_subject, tiny_dataset):
    with open_subject(f"--dataset.root={tiny_dataset}", shapes=()) as (_, subject, _world):
        known = features_in(subject.recorded, subject.config.policy)
    assert {"index", "timestamp"} <= subject.recorded.keys() - known.keys()
    assert {"observation.state", "action", "action_is_pad"} <= known.keys()
