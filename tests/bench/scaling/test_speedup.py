"""Rows of speed-up and efficiency."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.config.launch.launcher import Launcher
from manyhands.config.resolve import read_train_config
from manyhands.errors import ConfigError, EnvironmentFault
from manyhands.plan.communication import Link, Traffic
from manyhands.plan.link import ETHERNET
from manyhands_bench.config import BenchScalingConfig
from manyhands_bench.scaling.rank import RankReport
from manyhands_bench.scaling.speedup import (
    bench_scaling,
    case_of,
    link_of,
    measured_of,
    measured_row,
    modelled_row,
    traffic_of,
    update_of,
)

BASE = ["--policy=act", "--dataset.root=x", "--policy.device=cpu"]
TRAFFIC = Traffic(gradient_bytes=10**8, weight_bytes=10**8, num_units=10)
LINK = Link(name="a link", gbps=100.0, latency_us=5.0)
TIMES = st.floats(1e-3, 10)


def config_of(*flags):
    return read_train_config([*BASE, *flags])


def reports_of(num_ranks, *seconds):
    """Ranks that took that long for their steps."""
    return [
        RankReport(
            rank=rank,
            num_ranks=num_ranks,
            pid=100 + rank,
            device="cpu",
            precision="no",
            strategy="",
            threads=1,
            step_s=list(seconds),
            traffic=TRAFFIC,
        )
        for rank in range(num_ranks)
    ]


def found(config, number, step_s, compute_s=None):
    """What that many processes measured."""
    silent = reports_of(number, compute_s or step_s)
    return measured_of(case_of(config, Launcher(), number), reports_of(number, step_s), silent)


@given(st.integers(2, 8), TIMES, TIMES, TIMES)
def test_efficiency_is_speedup_per_process(number, single_s, step_s, compute_s):
    single = found(config_of(), 1, single_s)
    row = measured_row(found(config_of(), number, step_s, compute_s), single)
    assert row.efficiency == pytest.approx(row.speedup / number)
    assert row.speedup == pytest.approx(number * single_s / step_s)
    assert 0 <= row.communication_share < 1
    assert row.kind == "measured" and len({rank["pid"] for rank in row.ranks}) == number


def test_communication_is_what_exchanging_adds_to_computing_side_by_side():
    exchanging = reports_of(2, 0.10, 0.12, 0.50)
    update = update_of(exchanging, reports_of(2, 0.09, 0.01, 0.09))
    assert update.step_s == pytest.approx(0.12)
    assert update.communication_share == pytest.approx(0.25)


def test_the_single_process_counts_as_often_as_it_was_measured():
    reports = [*reports_of(1, 0.1, 0.2), *reports_of(1, 0.3, 0.4, 0.5)]
    update = measured_of(case_of(config_of(), Launcher(), 1), reports, []).update
    assert update.step_s == 0.3 and update.communication_share == 0


def test_one_process_is_its_own_measure():
    single = found(config_of(), 1, 0.25)
    row = measured_row(single, single)
    assert (row.speedup, row.efficiency, row.communication_share) == (1, 1, 0)
    assert row.samples_per_s == 32 and row.samples_per_step == 8


@given(TIMES, st.floats(0.1, 1e4))
def test_a_model_from_one_process_never_exceeds_perfect_scaling(single_s, gbps):
    config = config_of()
    single = found(config, 1, single_s)
    link = Link(name="a link", gbps=gbps, latency_us=5.0)
    row = modelled_row(case_of(config, Launcher(), 8), [single], TRAFFIC, link, None)
    assert row.kind == "modelled" and row.ranks == []
    assert 0 < row.efficiency <= 1
    assert row.efficiency == pytest.approx(1 - row.communication_share)


def test_a_model_costs_no_less_than_what_was_measured():
    config = config_of()
    measured = [found(config, 1, 0.1), found(config, 2, 0.2, 0.15)]
    perfect = Link(name="perfect", gbps=float("inf"), latency_us=0.0)
    row = modelled_row(case_of(config, Launcher(), 4), measured, TRAFFIC, perfect, None)
    assert row.efficiency == pytest.approx(measured_row(measured[1], measured[0]).efficiency)
    assert row.compute_ms == pytest.approx(150) and row.model["measured_processes"] == 2
    assert row.model["least_exchange_ms"] == pytest.approx(50)


def test_a_given_batch_is_divided_among_processes():
    config = config_of("--global_batch_size=64")
    single = found(config, 1, 0.64)
    row = modelled_row(case_of(config, Launcher(), 4), [single], TRAFFIC, LINK, None)
    assert row.samples_per_step == 64 and row.compute_ms == pytest.approx(160)
    assert 3 < row.speedup <= 4


def test_flags_say_how_much_travels():
    halved = config_of("--accelerator.ddp.gradient_compression=bf16")
    case = case_of(halved, Launcher(), 2)
    assert traffic_of(case, TRAFFIC, halved).gradient_bytes == 5 * 10**7
    kept = config_of(
        "--parallelism.dp_shard=-1",
        "--accelerator.fsdp.reshard_after_forward=false",
        "--accelerator.gradient_accumulation.steps=3",
    )
    assert traffic_of(case_of(kept, Launcher(), 2), TRAFFIC, kept).num_gathers == 3


def test_shards_need_several_processes():
    config = config_of("--parallelism.dp_shard=2")
    kinds = [case_of(config, Launcher(), number).strategy.kind.value for number in (1, 2, 4)]
    assert kinds == ["single", "FSDP2", "HSDP"]


@pytest.mark.parametrize(
    ("flag", "error"),
    [
        ("--parallelism.dp_shard=4", ConfigError),
        ("--global_batch_size=2", EnvironmentFault),
    ],
)
def test_what_cannot_be_divided_is_refused_before_anything_starts(flag, error):
    bench = BenchScalingConfig(processes=[6])
    with pytest.raises(error, match=flag.split("=")[0]):
        bench_scaling(bench, config_of(flag), Launcher(), lambda *_: pytest.fail("started"))


def test_a_link_is_as_the_user_says():
    bench = BenchScalingConfig(link_gbps=40.0, link_latency_us=7.0)
    link = link_of(bench, False, 4, 2)
    assert (link.gbps, link.latency_us) == (40.0, 7.0) and "--link_gbps" in link.name
    slow = link_of(BenchScalingConfig(link_latency_us=7.0), False, 4, 2)
    assert (slow.gbps, slow.latency_us) == (ETHERNET.gbps, 7.0)
