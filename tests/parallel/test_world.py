"""Ranks agree, and refuse what cannot work."""

import json
import sys
from pathlib import Path

import pytest
import torch

from manyhands.config.launch.launcher import Launcher
from manyhands.config.policies.act import ActConfig
from manyhands.config.sections.execution import ParallelismConfig
from manyhands.config.train import AcceleratorConfig, GradientAccumulationConfig, TrainConfig
from manyhands.errors import ConfigError, EnvironmentFault
from manyhands.launch.workers import run_workers
from manyhands.parallel.world import indexed, joined_world, resolve_accumulation

CPU = TrainConfig(policy=ActConfig(device="cpu"))

TALK = """
import json, sys, torch
from pathlib import Path
from accelerate import PartialState
from manyhands.config.policies.act import ActConfig
from manyhands.config.train import TrainConfig
from manyhands.parallel.world import joined_world

with joined_world(TrainConfig(policy=ActConfig(device="cpu"))) as world:
    said = {
        "rank": world.rank,
        "size": world.size,
        "kind": world.kind,
        "kind of accelerate": PartialState(cpu=True).distributed_type.value,
        "main": world.is_main,
        "seats": [each.rank for each in world.placements],
        "any": [world.any(world.rank == 1), world.any(False)],
        "gather": world.gather(world.rank * 10),
        "share": world.broadcast(f"from {world.rank}"),
        "once": world.on_main(lambda: f"found by {world.rank}"),
        "sum": world.sum(torch.tensor([1.0, world.rank])).tolist(),
    }
    world.barrier()
Path(sys.argv[1], f"{said['rank']}.json").write_text(json.dumps(said))
assert not torch.distributed.is_initialized()
"""


@pytest.mark.process
def test_two_ranks_agree(tmp_path: Path):
    assert run_workers(2, [sys.executable, "-c", TALK, str(tmp_path)]).code == 0
    for rank in range(2):
        assert json.loads((tmp_path / f"{rank}.json").read_text()) == {
            "rank": rank,
            "size": 2,
            "kind": "MULTI_CPU",
            "kind of accelerate": "MULTI_CPU",
            "main": rank == 0,
            "seats": [0, 1],
            "any": [True, False],
            "gather": [0, 10],
            "share": "from 0",
            "once": "found by 0",
            "sum": [2.0, 1.0],
        }


def test_one_rank_agrees_with_itself():
    with joined_world(CPU) as world:
        assert (world.size, world.kind, world.num_gpus) == (1, "NO", 0)
        assert world.any(True)
        assert not world.any(False)
        assert world.broadcast("x") == "x"
        assert world.sum(torch.ones(2)).tolist() == [1, 1]


def test_worlds_can_follow_each_other_with_other_settings():
    with joined_world(CPU) as world:
        assert world.precision == "no"
    half = TrainConfig(
        policy=ActConfig(device="cpu"), accelerator=AcceleratorConfig(mixed_precision="bf16")
    )
    with joined_world(half) as world:
        assert world.precision == "bf16"


def test_accumulation_is_the_flags_else_the_launchers(monkeypatch):
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4")
    assert resolve_accumulation(TrainConfig()) == 4
    parts = GradientAccumulationConfig(steps=2)
    asked = TrainConfig(accelerator=AcceleratorConfig(gradient_accumulation=parts))
    assert resolve_accumulation(asked) == 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_gpu_that_is_not_there_is_refused():
    config = TrainConfig(policy=ActConfig(device="cuda"))
    with pytest.raises(EnvironmentFault, match="no GPU is visible"), joined_world(config):
        pass


def test_a_gpu_has_an_index_and_the_cpu_of_a_single_process_has_none(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    alone, third = Launcher(), Launcher(num_ranks=4, local_rank=2, started_ranks=True)
    assert indexed(torch.device("cuda"), alone) == torch.device("cuda", 1)
    assert indexed(torch.device("cuda", 2), alone) == torch.device("cuda", 2)
    assert indexed(torch.device("cuda"), third) == torch.device("cuda", 2)
    assert indexed(torch.device("cpu"), alone) == torch.device("cpu")
    assert indexed(torch.device("cpu"), third) == torch.device("cpu", 0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_the_device_of_a_single_process_has_an_index():
    with joined_world(TrainConfig(policy=ActConfig(device="cuda"))) as world:
        assert world.device == torch.device("cuda", torch.cuda.current_device())
        torch.cuda.set_device(world.device)


def test_double_precision_under_a_launchers_mixed_precision_is_refused(monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    config = TrainConfig(policy=ActConfig(device="cpu"), dtype="float64")
    with (
        pytest.raises(EnvironmentFault, match=r"asks for bf16.*--dtype=float64"),
        joined_world(config),
    ):
        pass


def test_degrees_that_cannot_be_are_refused_before_ranks_meet():
    config = TrainConfig(
        policy=ActConfig(device="cpu"), parallelism=ParallelismConfig(dp_replicate=2)
    )
    with (
        pytest.raises(ConfigError, match=r"dp_replicate=2 .* multiply to 1,"),
        joined_world(config),
    ):
        pass


@pytest.mark.parametrize(
    ("precision", "expected"), [("no", "float32"), ("bf16", "bfloat16"), ("fp16", "float16")]
)
def test_matrix_products_have_the_precision_of_the_run(precision, expected):
    with joined_world(CPU) as world:
        world.precision = precision
        with world.autocast():
            assert str((torch.ones(2, 2) @ torch.ones(2, 2)).dtype) == f"torch.{expected}"
