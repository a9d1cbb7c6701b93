"""The measurements of a rank between two rows."""

import time

import pytest

from manyhands.observe.clock import Clock
from manyhands.observe.load_sampler import LoadSampler
from manyhands.observe.meters import Lap, Meters


def test_a_lap_has_the_times_of_the_loop_the_phases_of_steps_and_the_load(tmp_path):
    phases = [lambda: {"copy": 0.1}, lambda: {"forward": 0.2}]
    meters = Meters(Clock(), phases, LoadSampler(tmp_path, []))
    with meters.sampling(), meters.timing("data"):
        time.sleep(0.05)
    lap = meters.lap()
    assert lap.times["data"] >= 0.05
    assert lap.phases == {"copy": 0.1, "forward": 0.2}
    assert lap.load["disk_free_bytes"] > 0


def test_a_rank_without_instruments_has_its_clock():
    meters = Meters(Clock())
    with meters.sampling():
        lap = meters.lap()
    assert (set(lap.times), lap.phases, lap.load) == ({"wall"}, {}, {})


def test_times_are_per_step_and_those_of_validation_are_no_step_time():
    times = {"wall": 10.0, "validate": 2.0, "evaluate": 3.0, "data": 1.0}
    lap = Lap(times, {"forward": 0.3}, {})
    assert lap.step_s(10) == pytest.approx(0.5)
    assert lap.phases_s(10) == {"data_s": 0.1, "forward_s": 0.3}
