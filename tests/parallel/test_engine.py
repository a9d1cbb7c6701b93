"""Strategies and the engines they call for."""

import pytest
from accelerate import PartialState
from torch import nn

from manyhands.config.policies.act import ActConfig
from manyhands.config.sections.execution import DdpConfig
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError
from manyhands.parallel.accelerate_engine import AccelerateEngine
from manyhands.parallel.data_parallel import DataParallel
from manyhands.parallel.engine import build_engine
from manyhands.parallel.sharded_engine import ShardedEngine
from manyhands.parallel.strategy import Strategy
from manyhands.parallel.world import joined_world

CPU = TrainConfig(policy=ActConfig(device="cpu"))


def test_each_strategy_has_its_engine():
    with joined_world(CPU) as world:
        network = nn.Linear(1, 1)
        assert build_engine(world, 1, DdpConfig()).prepare(network) is network
        world.strategy = Strategy(num_devices=2)
        engine = build_engine(world, 1, DdpConfig())
        assert isinstance(engine, AccelerateEngine)
        assert isinstance(engine.prepare(network), DataParallel)
        for sharding in (Strategy(num_shards=2), Strategy(num_replicas=2, num_shards=2)):
            world.strategy = sharding
            assert isinstance(build_engine(world, 1, DdpConfig()), ShardedEngine)


def test_sharded_runs_do_without_accelerate():
    with joined_world(CPU) as world:
        world.strategy = Strategy(num_shards=2)
        build_engine(world, 1, DdpConfig())
        assert PartialState._shared_state == {}


def test_a_static_graph_cannot_have_micro_batches():
    with joined_world(CPU) as world:
        build_engine(world, 1, DdpConfig(static_graph=True))
        with pytest.raises(
            ConfigError, match=r"static_graph=true needs one micro-batch per step, not 3"
        ):
            build_engine(world, 3, DdpConfig(static_graph=True))


def test_gradient_compression_is_for_gradients_that_travel():
    with joined_world(CPU) as world:
        network = nn.Linear(1, 1)
        engine = build_engine(world, 1, DdpConfig(gradient_compression="bf16"))
        assert engine.prepare(network) is network
