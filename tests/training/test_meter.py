"""Measures over a lap."""

import time

import pytest
import torch

from manyhands.config.act import ActConfig
from manyhands.config.train import TrainConfig
from manyhands.errors import Diverged
from manyhands.observe.clock import Clock
from manyhands.parallel.world import joined_world
from manyhands.training.learner import UpdateResult
from manyhands.training.meter import Meter


@pytest.fixture
def meter():
    with joined_world(TrainConfig(policy=ActConfig(device="cpu"))) as world:
        clock = Clock()
        meter = Meter(world, clock, samples_per_step=8)
        with clock.timing("data"):
            time.sleep(0.03)
        yield meter


def result(loss: float, lr: float = 0.1) -> UpdateResult:
    return UpdateResult({"loss": torch.tensor(loss)}, torch.tensor(2 * loss), lr)


def test_a_lap_averages_its_updates_and_forgets_them(meter):
    meter.note(result(1.0))
    meter.note(result(3.0, lr=0.2))
    lap = meter.lap()
    assert (lap["loss"], lap["grad_norm"], lap["lr"]) == (2.0, 4.0, 0.2)
    meter.note(result(5.0))
    assert meter.lap()["loss"] == 5.0


def test_means_are_exact_over_long_laps_and_nothing_is_kept(meter):
    for _ in range(1000):
        meter.note(result(0.1))
    assert meter._sums.numel() == 2
    assert meter.lap()["loss"] == pytest.approx(torch.tensor(0.1).item(), rel=1e-12)


def test_noting_reads_nothing_back(meter, no_host_synchronization):
    with no_host_synchronization():
        meter.note(result(1.0))
        meter.note(result(1.0))


def test_speed_counts_all_samples_and_the_wait_for_data(meter):
    meter.note(result(1.0))
    meter.note(result(1.0))
    lap = meter.lap()
    assert lap["samples_per_s"] == pytest.approx(16 / (2 * lap["step_s"]))
    assert 0 < lap["data_wait_share"] <= 1
    assert lap["data_s"] >= 0.015


def test_a_measure_that_is_not_finite_is_named(meter):
    meter.note(result(float("nan")))
    with pytest.raises(Diverged, match="loss, grad_norm"):
        meter.lap()
