"""The engine of single-process and DDP runs."""

import os

import pytest
import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState
from torch import nn

from manyhands.config.launch.launcher import take_over
from manyhands.config.policies.act import ActConfig
from manyhands.config.sections.execution import DdpConfig
from manyhands.config.train import TrainConfig
from manyhands.parallel.accelerate_engine import AccelerateEngine, build_accelerator, micro_batch
from manyhands.parallel.world import joined_world

CPU = TrainConfig(policy=ActConfig(device="cpu"))


def test_parts_hold_every_sample_once_in_order():
    batch = {"x": torch.arange(6), "task": list("abcdef"), "draws": {"n": torch.arange(6) * 2}}
    parts = [micro_batch(batch, number, 3) for number in range(3)]
    assert torch.cat([part["x"] for part in parts]).tolist() == list(range(6))
    assert sum((part["task"] for part in parts), []) == list("abcdef")
    assert torch.cat([part["draws"]["n"] for part in parts]).tolist() == list(range(0, 12, 2))


def test_micro_batches_add_up_to_the_gradient_of_the_whole():
    gradients = []
    for num_micro_batches in (1, 3):
        with joined_world(CPU) as world:
            engine = AccelerateEngine(world, num_micro_batches)
            torch.manual_seed(0)
            network = nn.Linear(4, 1)
            wrapped = engine.prepare(network)
            batch = {"x": torch.arange(24.0).view(6, 4)}
            for part in engine.micro_batches(batch):
                engine.backward(wrapped(part["x"]).sum())
            gradients.append(network.weight.grad.clone())
    assert torch.equal(*gradients)


def test_what_a_launcher_asks_of_manyhands_is_not_done_a_second_time(monkeypatch):
    asked = {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4", "ACCELERATE_USE_FSDP": "true"}
    monkeypatch.setattr(os, "environ", os.environ | asked)
    take_over(os.environ)
    with joined_world(CPU) as world:
        accelerator = build_accelerator(world, DdpConfig())
        assert accelerator.gradient_accumulation_steps == 1
        assert not hasattr(accelerator.state, "fsdp_plugin")
        engine = AccelerateEngine(world, 1)
        network = nn.Linear(1, 1, bias=False)
        wrapped = engine.prepare(network)
        engine.backward(wrapped(torch.tensor([[3.0]])).sum())
        assert network.weight.grad == 3.0


@pytest.mark.parametrize(
    "asked", [DdpConfig(), DdpConfig(static_graph=True, gradient_as_bucket_view=False)]
)
def test_how_gradients_travel_is_told_to_ddp(asked):
    with joined_world(CPU) as world:
        told = build_accelerator(world, asked).ddp_handler
        assert told.static_graph == asked.static_graph
        assert told.gradient_as_bucket_view == asked.gradient_as_bucket_view
        assert not (told.find_unused_parameters or told.broadcast_buffers)


def test_runs_of_one_process_can_differ_because_accelerate_forgets():
    for precision in ("no", "bf16", "no"):
        with joined_world(CPU) as world:
            world.precision = precision
            accelerator = build_accelerator(world, DdpConfig())
            assert accelerator.mixed_precision == precision
            with pytest.raises(ValueError, match="already been initialized"):
                Accelerator(mixed_precision="bf16" if precision == "no" else "no")
    assert AcceleratorState._shared_state == PartialState._shared_state == {}


@pytest.mark.parametrize("is_fused", [True, False])
@pytest.mark.parametrize(("max_norm", "share"), [(0.0, 1.0), (1.0, 0.2), (10.0, 1.0)])
def test_a_step_is_limited_and_tells_what_the_norm_was(is_fused, max_norm, share):
    with joined_world(CPU) as world:
        engine = AccelerateEngine(world, 1)
        network = nn.Linear(3, 1, bias=False)
        wrapped = engine.prepare(network)
        before = network.weight.detach().clone()
        optimizer = torch.optim.SGD(network.parameters(), lr=1.0, fused=is_fused)
        engine.backward(wrapped(torch.tensor([[3.0, 0.0, 4.0]])).sum())
        assert engine.step(optimizer, max_norm) == 5.0
        moved = before - network.weight.detach()
        torch.testing.assert_close(moved, torch.tensor([[3.0, 0.0, 4.0]]) * share)


@pytest.mark.parametrize("factor", [1.0, float("inf")], ids=["finite", "overflow"])
def test_a_loss_scaler_skips_an_overflow_without_being_asked(no_host_synchronization, factor):
    with joined_world(CPU) as world:
        world.loss_scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        engine = AccelerateEngine(world, 1)
        network = nn.Linear(3, 1, bias=False)
        wrapped, before = engine.prepare(network), network.weight.detach().clone()
        optimizer = torch.optim.SGD(network.parameters(), lr=1.0, fused=True)
        with no_host_synchronization():
            engine.backward(wrapped(torch.tensor([[3.0, 0.0, 4.0]])).sum() * factor)
            norm = engine.step(optimizer, 1.0)
        moved = before - network.weight.detach()
        scale = engine.scaler_state()["scale"]
    if factor == 1.0:
        assert (norm, scale) == (5.0, 1024.0)
        torch.testing.assert_close(moved, torch.tensor([[0.6, 0.0, 0.8]]))
    else:
        assert (norm.isfinite(), scale) == (False, 512.0)
        assert not moved.any()


def test_the_loss_scale_exists_for_half_precision_only():
    with joined_world(CPU) as world:
        engine = AccelerateEngine(world, 1)
        assert engine.scaler_state() == {}
        assert not engine.scales_losses


def test_engines_learn_of_overflows_by_themselves():
    with joined_world(CPU) as world:
        world.loss_scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        one, other = (AccelerateEngine(world, 1) for _ in range(2))
        assert one.scales_losses
        one.load_scaler_state({**one.scaler_state(), "scale": 2.0})
        assert other.scaler_state()["scale"] == 1024.0


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_gradients_that_are_not_finite_change_nothing(no_host_synchronization, kind):
    with joined_world(CPU) as world:
        engine = AccelerateEngine(world, 1)
        network = nn.Linear(3, 1, bias=False)
        wrapped, before = engine.prepare(network), network.weight.detach().clone()
        optimizer = kind(network.parameters(), lr=1.0, fused=True)
        with no_host_synchronization():
            engine.backward(wrapped(torch.tensor([[3.0, 0.0, 4.0]])).sum() * torch.nan)
            engine.step(optimizer, 1.0)
        assert torch.equal(network.weight, before)
