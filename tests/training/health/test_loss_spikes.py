"""Losses that jump are told, those that scatter are not."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.observe.run_log import RunLog
from manyhands.training.health.loss_spikes import MIN_HISTORY, WINDOW, LossSpikes, is_spike


def losses_like(num_rows: int, scatter: float, seed: int) -> np.ndarray:
    """A loss that falls as in training, with the scatter of batches or of means over many."""
    noise = np.random.default_rng(seed).normal(0, scatter, num_rows)
    return (0.02 + np.exp(-np.arange(num_rows) / 40)) * np.exp(noise)


def spikes_in(losses: np.ndarray) -> list[int]:
    windows = ((row, losses[max(0, row - WINDOW) : row]) for row in range(len(losses)))
    return [row for row, recent in windows if is_spike(losses[row], recent)]


@pytest.mark.parametrize("scatter", [0.01, 0.1, 0.3, 0.6])
def test_a_loss_that_scatters_as_usual_is_no_spike(scatter):
    for seed in range(3):
        assert spikes_in(losses_like(1500, scatter, seed)) == []


@pytest.mark.parametrize(("scatter", "factor"), [(0.01, 2.5), (0.1, 3.5), (0.3, 15.0)])
def test_a_jump_is_a_spike_and_its_aftermath_is_none(scatter, factor):
    losses = losses_like(400, scatter, 5)
    losses[300] = factor * np.median(losses[250:300])
    assert spikes_in(losses) == [300]


@given(
    st.lists(st.floats(0.9, 1.1), min_size=MIN_HISTORY - 1, max_size=20),
    st.floats(0.5, 10),
    st.sampled_from([2.0**-30, 0.25, 2.0, 2.0**20]),
)
def test_the_unit_of_the_loss_does_not_matter(recent, loss, unit):
    scaled = [unit * each for each in recent]
    # At the very border rounding may decide.
    if not is_spike(loss * 0.999999, recent) and is_spike(loss * 1.000001, recent):
        return
    assert is_spike(unit * loss, scaled) == is_spike(loss, recent)


def test_a_short_history_proves_nothing():
    steady = [1.0] * MIN_HISTORY
    assert is_spike(100.0, steady)
    assert not is_spike(100.0, steady[1:])
    assert not is_spike(100.0, [*steady[1:], math.nan])


@pytest.mark.parametrize("loss", [math.nan, math.inf, -1.0, 0.0])
def test_what_has_no_ratio_is_not_compared(loss):
    assert not is_spike(loss, [1.0] * MIN_HISTORY)
    assert not is_spike(1.0, [loss] * MIN_HISTORY)


def test_a_spike_is_marked_and_told(tmp_path):
    loss_spikes = LossSpikes(RunLog(tmp_path, 100, 0))
    marks = [loss_spikes.on(step, {"loss": 1.0 + step % 3 / 10}) for step in range(20)]
    assert marks == [{}] * 20
    assert loss_spikes.on(20, {"loss": 30.0}) == {"loss_spike": True}
    assert loss_spikes.on(21, {"loss": 1.0}) == {}
    assert "loss spike at step 20: 30;" in (tmp_path / "log.txt").read_text()


def test_a_held_out_loss_that_is_not_finite_is_told_and_ends_nothing(tmp_path):
    loss_spikes = LossSpikes(RunLog(tmp_path, 100, 0))
    assert loss_spikes.on(3, {"loss": 1.0, "held_out_loss": math.nan}) == {}
    assert "held_out_loss is nan after step 3" in (tmp_path / "log.txt").read_text()
