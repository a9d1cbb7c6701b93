"""Measures over a lap."""

import json
import math
import time

import pytest
import torch

from manyhands.config.policies.act import ActConfig
from manyhands.config.train import TrainConfig
from manyhands.observe.clock import Clock
from manyhands.observe.meters import Meters
from manyhands.parallel.world import joined_world
from manyhands.training.metrics import MetricsWindow, slowest
from manyhands.training.periods import Periods
from manyhands.training.step.train_step import StepMetrics

NOT_BAD = torch.tensor(False)
EVERY_STEP = Periods(num_steps=10_000, log_every=1, save_every=0)


@pytest.fixture
def metrics_window():
    with joined_world(TrainConfig(policy=ActConfig(device="cpu"))) as world:
        clock = Clock()
        metrics_window = MetricsWindow(world, Meters(clock), samples_per_step=8, periods=EVERY_STEP)
        with clock.timing("data"):
            time.sleep(0.03)
        yield metrics_window


def result(loss: float, is_bad: bool = False) -> StepMetrics:
    terms = {"loss": torch.tensor(loss)}
    return StepMetrics(terms, torch.tensor(2 * loss), torch.tensor(is_bad))


def test_a_lap_averages_its_updates_and_forgets_them(metrics_window):
    metrics_window.note(result(1.0), 0.1)
    metrics_window.note(result(3.0), 0.2)
    lap = metrics_window.lap()
    assert (lap["loss"], lap["grad_norm"], lap["lr"]) == (2.0, 4.0, 0.2)
    metrics_window.note(result(5.0), 0.1)
    assert metrics_window.lap()["loss"] == 5.0


def test_recent_metrics_are_those_since_the_last_look_and_leave_the_lap_alone(metrics_window):
    metrics_window.note(result(1.0), 0.1)
    assert metrics_window.recent()["loss"] == 1.0
    metrics_window.note(result(4.0), 0.1)
    metrics_window.note(result(6.0), 0.2)
    time.sleep(0.2)
    recent = metrics_window.recent()
    assert (recent["loss"], recent["grad_norm"], recent["lr"]) == (5.0, 10.0, 0.2)
    assert 0.1 <= recent["step_s"] < 10
    assert recent["samples_per_s"] == pytest.approx(8 / recent["step_s"])
    assert metrics_window.lap()["loss"] == pytest.approx(11 / 3)
    metrics_window.note(result(7.0), 0.2)
    assert metrics_window.recent()["loss"] == 7.0


def test_means_are_exact_over_long_laps_and_nothing_is_kept(metrics_window):
    for _ in range(1000):
        metrics_window.note(result(0.1), 0.1)
    assert metrics_window._sums.numel() == 2
    assert metrics_window.lap()["loss"] == pytest.approx(torch.tensor(0.1).item(), rel=1e-12)


def test_noting_reads_nothing_back(metrics_window, no_host_synchronization):
    with no_host_synchronization():
        metrics_window.note(result(1.0), 0.1)
        metrics_window.note(result(2.0), 0.1)
    assert metrics_window.lap()["loss"] == 1.5


def test_speed_counts_all_samples_and_the_wait_for_data(metrics_window):
    metrics_window.note(result(1.0), 0.1)
    metrics_window.note(result(1.0), 0.1)
    lap = metrics_window.lap()
    assert lap["samples_per_s"] == pytest.approx(16 / (2 * lap["step_s"]))
    assert 0 < lap["data_wait_share"] <= 1
    assert lap["data_s"] >= 0.015


def test_bad_updates_have_no_part_in_the_means_but_in_the_time(metrics_window):
    for loss in (1.0, math.nan, math.inf, 3.0):
        metrics_window.note(result(loss, is_bad=not math.isfinite(loss)), 0.1)
    lap = metrics_window.lap()
    assert (lap["loss"], lap["grad_norm"]) == (2.0, 4.0)
    assert lap["samples_per_s"] == pytest.approx(32 / (4 * lap["step_s"]))


def test_a_lap_of_bad_updates_has_no_loss_and_spoils_no_other(metrics_window):
    metrics_window.note(result(math.nan, is_bad=True), 0.1)
    assert math.isnan(metrics_window.lap()["loss"])
    metrics_window.note(result(1.0), 0.1)
    assert metrics_window.lap()["loss"] == 1.0


def test_an_overflow_of_scaled_gradients_counts_as_no_gradient(metrics_window):
    scaled = StepMetrics({"loss": torch.tensor(4.0)}, torch.tensor(math.inf), NOT_BAD)
    metrics_window.note(scaled, 0.1)
    metrics_window.note(result(2.0), 0.1)
    lap = metrics_window.lap()
    assert (lap["loss"], lap["grad_norm"]) == (3.0, 2.0)


def test_a_restarted_lap_forgets_what_came_before(metrics_window):
    metrics_window.note(result(9.0), 0.1)
    metrics_window.restart(0)
    metrics_window.note(result(1.0), 0.1)
    lap = metrics_window.lap()
    assert lap["loss"] == 1.0
    assert "data_s" not in lap


def lapped(world, *, stop_after: int) -> dict[str, float]:
    """The row of ten steps of a run that stops on the way, and resumes."""
    periods = Periods(num_steps=20, log_every=10, save_every=0)
    results = [result(1 / (3 + number)) for number in range(20)]
    metrics_window = MetricsWindow(world, Meters(Clock()), 8, periods, step=10)
    for number in range(11, 11 + stop_after):
        metrics_window.note(results[number - 1], 0.1 / number)
    assert metrics_window.lap()["unfinished"] is True
    resumed = MetricsWindow(world, Meters(Clock()), 8, periods, step=10 + stop_after)
    resumed.resume(json.loads(json.dumps(metrics_window.unfinished)))
    for number in range(11 + stop_after, 21):
        resumed.note(results[number - 1], 0.1 / number)
    row = resumed.lap()
    assert resumed.unfinished is None
    assert row["samples_per_s"] == pytest.approx(8 / row["step_s"])
    return {name: row[name] for name in ("loss", "grad_norm", "lr")}


def test_a_lap_that_a_request_to_stop_cut_in_two_has_the_measures_of_one():
    with joined_world(TrainConfig(policy=ActConfig(device="cpu"))) as world:
        metrics_window = MetricsWindow(
            world, Meters(Clock()), 8, Periods(num_steps=20, log_every=10, save_every=0), step=10
        )
        for number in range(11, 21):
            metrics_window.note(result(1 / (2 + number)), 0.1 / number)
        row = metrics_window.lap()
        assert "unfinished" not in row
        for stop_after in (1, 7):
            cut = lapped(world, stop_after=stop_after)
            assert cut == {name: row[name] for name in cut}


def test_a_lap_continues_on_another_number_of_ranks(metrics_window):
    metrics_window.resume({"num_steps": 2, "num_sound": 2.0, "sums": [[1.0, 12.0], [3.0, 12.0]]})
    metrics_window.note(result(2.0), 0.1)
    lap = metrics_window.lap()
    assert (lap["loss"], lap["grad_norm"]) == (2.0, pytest.approx(16 / 3))


def test_every_rank_has_a_row_of_its_own_measurements(metrics_window):
    metrics_window.note(result(1.0), 0.1)
    lap = metrics_window.lap()
    (row,) = metrics_window.ranks
    assert (row["rank"], row["gpu"]) == (0, None) and row["host"]
    assert (row["step_s"], row["data_s"]) == (lap["step_s"], lap["data_s"])


def test_a_row_has_the_slowest_rank_of_each_phase():
    laps = [{"data_s": 0.1, "forward_s": 0.5}, {"data_s": 0.3}]
    assert slowest(laps) == {"data_s": 0.3, "forward_s": 0.5}


def test_rows_of_ranks_that_end_early_are_replaced_too():
    with joined_world(TrainConfig(policy=ActConfig(device="cpu"))) as world:
        periods = Periods(num_steps=20, log_every=10, save_every=0)
        metrics_window = MetricsWindow(world, Meters(Clock()), 8, periods, step=10)
        metrics_window.note(result(1.0), 0.1)
        metrics_window.lap()
        assert [row["unfinished"] for row in metrics_window.ranks] == [True]
