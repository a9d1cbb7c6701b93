"""Time by phase."""

import math
import time

from manyhands.observe.clock import Clock


def test_a_lap_holds_each_phase_and_the_whole():
    clock = Clock()
    for _ in range(2):
        with clock.timing("data"):
            time.sleep(0.02)
    time.sleep(0.02)
    lap = clock.lap()
    assert 0.04 <= lap["data"] <= lap["wall"] - 0.02


def test_a_lap_starts_the_next_one():
    clock = Clock()
    with clock.timing("data"):
        time.sleep(0.02)
    clock.lap()
    assert "data" not in clock.lap()


def test_whoever_asks_is_told_of_every_phase_that_begins():
    begun = []
    clock = Clock(begun.append)
    for phase in ("data", "update"):
        with clock.timing(phase):
            pass
    assert begun == ["data", "update"]


def test_the_time_since_a_phase_is_none_inside_of_it():
    clock = Clock()
    assert clock.seconds_since(["validate", "evaluate"]) == math.inf
    with clock.timing("validate"):
        assert clock.seconds_since(["validate", "evaluate"]) == 0
    time.sleep(0.02)
    with clock.timing("update"):
        assert 0.02 <= clock.seconds_since(["validate", "evaluate"]) < 10
