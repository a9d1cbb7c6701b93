"""One mode, timed."""

import time
import weakref

import pytest
import torch

from manyhands_bench.config import BenchStepConfig
from manyhands_bench.step.row import Timed, measured_row, rated, row_of, timed_updates

TIMED = Timed(step_s=[0.01 * n for n in range(1, 12)], peak_bytes=1 << 30, setup_s=2.0)


def test_a_row_has_the_middle_and_both_ends():
    row = row_of("eager", "no", TIMED, num_samples=12)
    assert (row.p10_ms, row.median_ms, row.p90_ms) == pytest.approx((20, 60, 100))
    assert row.samples_per_s == pytest.approx(200)
    assert (row.peak_memory_gib, row.setup_s) == (1.0, 2.0)


def test_operations_are_compared_with_the_peak():
    row = rated(row_of("eager", "no", TIMED, 12), 6 * 10**10, 4e12)
    assert (row.tflops, row.mfu) == pytest.approx((1.0, 0.25))
    assert rated(row, 6 * 10**10, None).mfu is None


def test_the_first_update_is_timed_apart():
    seen = []

    def update(step):
        seen.append(step)
        time.sleep(0.2 if step == 0 else 0.001)

    bench = BenchStepConfig(num_steps=4, warm_up=2)
    timed = timed_updates(update, bench, torch.device("cpu"))
    assert seen == [*range(7)] and len(timed.step_s) == 4
    assert timed.setup_s >= 0.2


def test_eager_updates_are_told_by_phase(open_subject):
    with open_subject() as (bench, subject, world):
        row, learner = measured_row("eager", subject, bench, world)
        assert row.median_ms > 0 and row.setup_s > 0 and row.peak_memory_gib > 0
        assert min(row.forward_ms, row.backward_ms) > 0 and row.optimizer_ms >= 0
        assert row.host_ms is None and row.notes == []
        assert learner.config.step.mode == "eager"


def test_a_mode_is_measured_without_the_network_of_the_one_before(open_subject):
    with open_subject() as (bench, subject, world):
        _, learner = measured_row("eager", subject, bench, world)
        network = weakref.ref(learner.policy.network)
        del learner
        measured_row("eager", subject, bench, world)
        assert network() is None


def test_micro_batches_are_measured_as_one_update(open_subject):
    flag = "--accelerator.gradient_accumulation.steps=2"
    with open_subject(flag) as (bench, subject, world):
        row, _ = measured_row("eager", subject, bench, world)
        assert row.samples_per_s == pytest.approx(8e3 / row.median_ms)
