"""What can be measured on a machine, and what cannot."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.config.launch.launcher import Launcher
from manyhands.config.resolve import read_train_config
from manyhands.cores import num_cores
from manyhands.errors import ConfigError, EnvironmentFault
from manyhands_bench.config import BenchScalingConfig
from manyhands_bench.scaling.host import Host, host_of, refuse_other_starts, sizes_of

BASE = ["--policy=act", "--dataset.root=x", "--policy.device=cpu"]
TWO_CORES = Host(False, 2, 2)


def config_of(*flags):
    return read_train_config([*BASE, *flags])


@given(st.integers(1, 64), st.booleans(), st.sampled_from(["auto", "measured", "modelled"]))
def test_nothing_is_measured_beyond_what_there_is(capacity, is_gpu, kind):
    sizes = sizes_of(BenchScalingConfig(kind=kind), Host(is_gpu, capacity, 64))
    assert sizes.measured[0] == 1 and max(sizes.measured) <= capacity
    assert sizes.all == sorted(set(sizes.all))
    if kind == "auto":
        assert {1, 2, 4, 8} <= set(sizes.all)
        assert all(number > capacity for number in sizes.modelled)


def test_two_cores_host_two_processes_and_more_are_modelled():
    sizes = sizes_of(BenchScalingConfig(), TWO_CORES)
    assert (sizes.measured, sizes.modelled) == ([1, 2], [4, 8])
    asked = sizes_of(BenchScalingConfig(processes=[3, 2]), TWO_CORES)
    assert (asked.measured, asked.modelled) == ([1, 2], [3])
    assert sizes_of(BenchScalingConfig(kind="modelled"), TWO_CORES).modelled == [2, 4, 8]


def test_all_gpus_are_measured_however_many():
    assert sizes_of(BenchScalingConfig(), Host(True, 16, 64)).measured == [1, 2, 4, 8, 16]


@pytest.mark.parametrize(
    ("host", "has"), [(TWO_CORES, "CPU cores is 2"), (Host(True, 2, 8), "GPUs is 2")], ids=str
)
def test_a_measurement_that_would_be_none_is_refused(host, has):
    with pytest.raises(EnvironmentFault, match=rf"--processes=\[4\].* {has}"):
        sizes_of(BenchScalingConfig(processes=[4], kind="measured"), host)


def test_a_host_has_cores_for_processes_with_their_threads():
    host = host_of(BenchScalingConfig(), config_of(), Launcher())
    assert not host.is_gpu and host.capacity == num_cores()
    assert host_of(BenchScalingConfig(threads=num_cores()), config_of(), Launcher()).capacity == 1
    with pytest.raises(EnvironmentFault, match="--threads="):
        host_of(BenchScalingConfig(threads=num_cores() + 1), config_of(), Launcher())


@pytest.mark.parametrize(
    "flag", ["--launch.num_processes=2", "--parallelism.gpus_per_process=2"], ids=str
)
def test_other_ways_to_say_how_many_are_refused(flag):
    with pytest.raises(ConfigError, match=flag.split("=")[0]):
        refuse_other_starts(config_of(flag), Launcher())
    refuse_other_starts(config_of(), Launcher())


def test_a_resumed_run_and_other_machines_are_refused_together():
    config = config_of(
        "--launch.num_machines=2", "--launch.main_address=a", "--launch.main_port=4000"
    )
    with pytest.raises(ConfigError) as raised:
        refuse_other_starts(replace(config, resume="somewhere"), Launcher())
    assert "--launch.num_machines" in str(raised.value) and "--resume" in str(raised.value)


def test_ranks_of_a_launcher_are_refused():
    with pytest.raises(EnvironmentFault, match="torchrun"):
        refuse_other_starts(config_of(), Launcher(started_ranks=True))
