"""The strategy that degrees and processes amount to."""

import subprocess
import sys

import pytest

from manyhands.config.launch.launcher import Launcher
from manyhands.config.sections.execution import DdpConfig, FsdpConfig, ParallelismConfig
from manyhands.config.train import AcceleratorConfig, TrainConfig
from manyhands.errors import ConfigError
from manyhands.parallel.strategy import Strategy, StrategyKind, resolve_strategy


def strategy(num_ranks: int, launcher=None, **degrees) -> Strategy:
    config = TrainConfig(parallelism=ParallelismConfig(**degrees))
    launched = Launcher(num_ranks=num_ranks, **(launcher or {}))
    return resolve_strategy(config, launched)


@pytest.mark.parametrize(
    ("num_ranks", "degrees", "kind", "copies", "shards"),
    [
        (1, {}, StrategyKind.SINGLE, 1, 1),
        (4, {}, StrategyKind.DDP, 4, 1),
        (4, {"dp_replicate": 4}, StrategyKind.DDP, 4, 1),
        (4, {"dp_replicate": 1}, StrategyKind.DDP, 4, 1),
        (4, {"dp_shard": -1}, StrategyKind.FSDP, 1, 4),
        (4, {"dp_shard": 4}, StrategyKind.FSDP, 1, 4),
        (4, {"dp_replicate": 1, "dp_shard": -1}, StrategyKind.FSDP, 1, 4),
        (4, {"dp_shard": 2}, StrategyKind.HSDP, 2, 2),
        (6, {"dp_replicate": 2, "dp_shard": -1}, StrategyKind.HSDP, 2, 3),
        (1, {"dp_shard": -1}, StrategyKind.SINGLE, 1, 1),
        (1, {"gpus_per_process": 3}, StrategyKind.DP, 1, 1),
    ],
)
def test_degrees_name_a_strategy(num_ranks, degrees, kind, copies, shards):
    found = strategy(num_ranks, **degrees)
    assert (found.kind, found.num_replicas, found.num_shards) == (kind, copies, shards)
    assert found.is_sharded == (kind in (StrategyKind.FSDP, StrategyKind.HSDP))
    assert str(found).startswith(kind.value)


@pytest.mark.parametrize(
    ("num_ranks", "degrees"),
    [
        (4, {"dp_replicate": 3}),
        (4, {"dp_shard": 3}),
        (2, {"dp_shard": 4}),
        (4, {"dp_replicate": 2, "dp_shard": 4}),
        (3, {"dp_replicate": 2, "dp_shard": -1}),
    ],
)
def test_degrees_that_do_not_multiply_to_the_processes_are_echoed(num_ranks, degrees):
    with pytest.raises(ConfigError) as caught:
        strategy(num_ranks, **degrees)
    (fault,) = caught.value.faults
    for name, value in degrees.items():
        assert f"--parallelism.{name}={value}" in fault
    assert f"multiply to {num_ranks}, the number" in fault


def test_a_launchers_sharding_stands_where_no_flag_says_otherwise():
    asked = {
        "parallelism": ParallelismConfig(dp_shard=-1),
        "fsdp": FsdpConfig(wrap_modules=["EncoderLayer"], cpu_offload=True),
    }
    found = strategy(4, launcher=asked)
    assert found.kind is StrategyKind.FSDP
    assert found.fsdp == asked["fsdp"]
    assert strategy(4, launcher=asked, dp_shard=2).kind is StrategyKind.HSDP


def test_a_detail_by_flag_stands_beside_a_launchers():
    fsdp = FsdpConfig(reshard_after_forward=False)
    config = TrainConfig(
        parallelism=ParallelismConfig(dp_shard=-1), accelerator=AcceleratorConfig(fsdp=fsdp)
    )
    launched = Launcher(num_ranks=2, fsdp=FsdpConfig(cpu_offload=True))
    merged = FsdpConfig(reshard_after_forward=False, cpu_offload=True)
    assert resolve_strategy(config, launched).fsdp == merged


def test_many_gpus_are_for_a_single_process():
    with pytest.raises(ConfigError, match=r"gpus_per_process=2 .* not 4"):
        strategy(4, gpus_per_process=2)


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_details_of_another_way_to_travel_are_refused(num_ranks):
    launcher = Launcher(num_ranks=num_ranks)
    fsdp = AcceleratorConfig(fsdp=FsdpConfig(cpu_offload=True))
    with pytest.raises(ConfigError, match=r"accelerator.fsdp \(cpu_offload\)"):
        resolve_strategy(TrainConfig(accelerator=fsdp), launcher)
    ddp = AcceleratorConfig(ddp=DdpConfig(static_graph=True))
    sharding = TrainConfig(accelerator=ddp, parallelism=ParallelismConfig(dp_shard=-1))
    with pytest.raises(ConfigError, match=r"accelerator.ddp \(static_graph\)"):
        resolve_strategy(sharding, launcher)


@pytest.mark.new_interpreter
def test_a_strategy_is_told_without_torch():
    code = "import sys, manyhands.parallel.strategy; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
