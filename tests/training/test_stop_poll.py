"""Ranks ask each other whether to stop: about twice a second, and all after the same step."""

import sys
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
import torch

from manyhands.config.policies.act import ActConfig
from manyhands.config.train import TrainConfig
from manyhands.launch.workers import run_workers
from manyhands.parallel.world import joined_world
from manyhands.stop import StopSignal
from manyhands.training import periods as stop_poll
from manyhands.training.periods import MAX_STEPS, PERIOD_S, StopPoll, next_interval


@dataclass
class TwoRanks:
    """A world seen from a rank, with the answers of another that is slower by a factor."""

    slower: float = 1.0
    is_asked_to_stop: bool = False
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    num_polls: int = 0

    def gather(self, value: tuple[bool, float]) -> list[tuple[bool, float]]:
        self.num_polls += 1
        return [value, (False, value[1] * self.slower)]


@pytest.fixture
def now(monkeypatch) -> list[float]:
    """A clock that tests set."""
    times = [0.0]
    monkeypatch.setattr(stop_poll.time, "monotonic", lambda: times[0])
    return times


def poll_steps(world: TwoRanks, now: list[float], step_s: list[float]) -> list[int]:
    """The steps after which ranks ask, where each takes a time of its own."""
    poll, steps = StopPoll(world), []
    for step, seconds in enumerate(step_s, start=1):
        now[0] += seconds
        before = world.num_polls
        poll.after_step()
        steps += [step] * (world.num_polls - before)
    return steps


@pytest.mark.parametrize("step_s", [0.005, 0.03, 0.2, 3.0, 20.0])
def test_polls_come_after_half_a_second_or_one_step(now, step_s):
    steps = poll_steps(TwoRanks(), now, [step_s] * 1000)
    gaps = [after - before for before, after in pairwise(steps)]
    assert max(gaps) * step_s <= max(PERIOD_S, step_s)
    assert sum(gaps[-3:]) * step_s >= 3 * PERIOD_S / 2 or max(gaps) == MAX_STEPS


def test_polls_begin_with_the_first_step_and_their_distance_doubles_at_most(now):
    assert poll_steps(TwoRanks(), now, [0.001] * 64) == [1, 3, 7, 15, 31, 63]


def test_the_slowest_rank_counts(now):
    # Powers of two, which floats have exactly.
    steps = poll_steps(TwoRanks(slower=8), now, [1 / 128] * 100)
    assert {after - before for before, after in pairwise(steps[4:])} == {8}


def test_slower_steps_are_polled_more_often_at_once(now):
    steps = poll_steps(TwoRanks(), now, [0.005] * 127 + [10.0] * 103)
    first_slow_poll = next(step for step in steps if step > 127)
    assert [step for step in steps if step > first_slow_poll] == [*range(first_slow_poll + 1, 231)]


def test_steps_without_duration_are_polled_all_the_same():
    assert next_interval(64, 0.0) == MAX_STEPS
    assert next_interval(1, 1e9) == 1


def test_ranks_ask_at_once_where_they_must(now):
    world = TwoRanks()
    poll = StopPoll(world)
    for _ in range(3):
        poll.after_step()
    assert world.num_polls == 2
    world.is_asked_to_stop = True
    assert not poll.after_step()
    assert poll.after_step(force=True)


def test_a_request_is_found_within_the_interval():
    stop = StopSignal()
    with joined_world(TrainConfig(policy=ActConfig(device="cpu")), stop=stop) as world:
        world.defer_stops()
        poll = StopPoll(world)
        assert not any(poll.after_step() for _ in range(500))
        stop.request()
        assert any(poll.after_step() for _ in range(MAX_STEPS))


STEP = """
import os, signal, sys, time
from pathlib import Path
from manyhands.config.policies.act import ActConfig
from manyhands.config.train import TrainConfig
from manyhands.parallel.world import joined_world
from manyhands.stop import StopSignal
from manyhands.training.periods import StopPoll

step_s, folder = float(sys.argv[1]), Path(sys.argv[2])
config = TrainConfig(policy=ActConfig(device="cpu"))
with StopSignal() as stop, joined_world(config, stop=stop) as world:
    world.defer_stops()
    poll = StopPoll(world)
    step, began, asked_at = 0, time.monotonic(), None
    while True:
        # The other rank is twice as slow: it would poll after other steps by its own clock.
        time.sleep(step_s * (1 + world.rank))
        step += 1
        if world.rank == 1 and time.monotonic() - began > 2.0 and asked_at is None:
            os.kill(os.getpid(), signal.SIGTERM)
            asked_at = time.monotonic()
        if poll.after_step():
            break
    took_s = time.monotonic() - (asked_at or time.monotonic())
    (folder / str(world.rank)).write_text(f"{step} {took_s}")
"""


@pytest.mark.process
@pytest.mark.parametrize("step_s", [0.002, 0.7])
def test_ranks_stop_after_the_same_step_within_seconds(tmp_path, step_s):
    assert run_workers(2, [sys.executable, "-c", STEP, str(step_s), str(tmp_path)]).code == 0
    said = [(tmp_path / str(rank)).read_text().split() for rank in range(2)]
    assert said[0][0] == said[1][0]
    # One poll more on a machine that is busy with other tests.
    assert float(said[1][1]) < 3 * max(PERIOD_S, 2 * step_s)
