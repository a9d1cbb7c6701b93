"""The cost of timing phases is a difference between steps that compute the same."""

import pytest
import torch

from manyhands_bench.step import phase_cost as measurement
from manyhands_bench.step.phase_cost import phase_cost, update_of


def test_both_kinds_of_steps_take_turns_and_their_medians_are_compared(open_subject, monkeypatch):
    calls = []

    def times(update, steps, device):
        calls.append((update, steps))
        return [1.5 if update == "timed" else 1.0 for _ in steps]

    monkeypatch.setattr(measurement, "step_times", times)
    monkeypatch.setattr(
        measurement, "update_of", lambda subject, world, on: "timed" if on else "untimed"
    )
    with open_subject() as (bench, subject, world):
        assert phase_cost(subject, bench, world) == pytest.approx(0.5)
    turns = [[name for name, _ in calls[at : at + 2]] for at in range(0, len(calls), 2)]
    assert all(sorted(turn) == ["timed", "untimed"] for turn in turns)
    firsts = [turn[0] for turn in turns[1:]]
    assert firsts.count("timed") == firsts.count("untimed")


def test_steps_without_timing_compute_the_same_and_time_nothing(open_subject, monkeypatch):
    built = []
    build = measurement.build_learner

    def remember(*given):
        built.append(build(*given))
        return built[-1]

    monkeypatch.setattr(measurement, "build_learner", remember)
    with open_subject() as (_, subject, world):
        for is_timed in (True, False):
            update_of(subject, world, is_timed)(0)
        (timed, _), (untimed, _) = built
    assert {"forward", "backward", "optimizer"} <= timed.step.phases.lap().keys()
    assert untimed.step.phases.lap() == {}
    weights = (each.policy.network.parameters() for each in (timed, untimed))
    assert all(map(torch.equal, *weights))
