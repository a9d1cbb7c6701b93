"""How long runs take, from measured steps."""

import json
import math
import time
from datetime import UTC, datetime

import pytest

from manyhands.errors import UserError
from manyhands.plan.run_time import StepBenchmark, end_after, estimate_run_time, read_benchmark
from manyhands.plan.topologies import plan_topology

START = datetime(2026, 10, 24, 22, tzinfo=UTC)
BENCHMARK = StepBenchmark({8: 0.1, 32: 0.3}, "a test")


@pytest.fixture
def timed(planned):
    """Estimates a run on some GPUs."""

    def estimate(gpus, *flags, benchmark=BENCHMARK):
        config, policy = planned(*flags)
        run = plan_topology(gpus, config, 1000)
        return estimate_run_time(run, policy.network, benchmark, START)

    return estimate


@pytest.fixture
def berlin(monkeypatch):
    """The local time of Berlin, with its daylight saving time."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_one_gpu_takes_its_steps_and_nothing_else(timed):
    time = timed(1, "--batch_size=8")
    assert (time.step_s, time.communication_share) == (0.1, 0)
    assert time.run_s == pytest.approx(10 * 0.1)
    assert time.samples_per_s == pytest.approx(80)


def test_a_run_ends_after_its_time(timed):
    time = timed(1, "--batch_size=8")
    assert (time.ends_at - START).total_seconds() == time.run_s


def test_the_end_has_the_clock_of_its_own_season(berlin):
    assert end_after(0, START).isoformat() == "2026-10-25T00:00:00+02:00"
    assert end_after(86400, START).isoformat() == "2026-10-25T23:00:00+01:00"


@pytest.mark.parametrize("seconds", [2.6e11, 1e15, math.inf])
def test_a_run_may_end_beyond_the_calendar(berlin, seconds):
    assert end_after(seconds, START) is None


def test_the_nearest_measured_batch_counts_in_proportion():
    assert BENCHMARK.compute_s(32) == 0.3
    assert BENCHMARK.compute_s(40) == pytest.approx(0.3 * 40 / 32)
    assert BENCHMARK.compute_s(4) == pytest.approx(0.05)


def test_micro_batches_come_one_after_the_other(timed):
    time = timed(1, "--global_batch_size=24", "--batch_size=8")
    assert time.step_s == pytest.approx(0.3)


@pytest.mark.parametrize("shard", ["1", "-1"])
def test_more_gpus_are_faster_and_pay_for_communication(timed, shard):
    one = timed(1, "--batch_size=8")
    four = timed(4, "--batch_size=8", f"--parallelism.dp_shard={shard}")
    assert one.samples_per_s < four.samples_per_s < 4 * one.samples_per_s
    assert 0 < four.communication_share < 1


def test_dp_has_no_estimate(timed):
    assert timed(2, "--batch_size=8", "--parallelism.gpus_per_process=2") is None


def test_a_benchmark_is_read_from_the_results_of_bench_step(tmp_path):
    file = tmp_path / "step.json"
    results = {"batch_size": 64, "median_ms": 25.0, "device": "NVIDIA H200", "mode": "graph"}
    file.write_text(json.dumps(results))
    found = read_benchmark(file)
    assert found.compute_s(64) == 0.025
    assert "NVIDIA H200" in found.source and str(file) in found.source


@pytest.mark.parametrize(
    "content",
    [
        *(None, "{", "[]", "{}"),
        *(
            f'{{"batch_size": {size}, "median_ms": {ms}, "device": "", "mode": ""}}'
            for size, ms in ((0, 1), ("1e999", 1), (1, 0), (1, "NaN"), (1, "1e999"))
        ),
    ],
)
def test_any_other_file_is_refused(tmp_path, content):
    file = tmp_path / "step.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UserError, match=f"--benchmark={file} has "):
        read_benchmark(file)
