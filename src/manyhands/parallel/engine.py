"""Builds the engine of a strategy."""

from functools import partial

from manyhands.config.sections.execution import DdpConfig
from manyhands.errors import ConfigError
from manyhands.parallel.accelerate_engine import AccelerateEngine
from manyhands.parallel.data_parallel import DataParallel, devices_of
from manyhands.parallel.strategy import StrategyKind
from manyhands.parallel.world import World
from manyhands.types import Engine


def build_engine(world: World, num_micro_batches: int, ddp: DdpConfig) -> Engine:
    """Build the engine that runs steps on the devices of a world."""
    match world.strategy.kind:
        case StrategyKind.FSDP | StrategyKind.HSDP:
            # Imports torch's FSDP, which takes a second.
            from manyhands.parallel.sharded_engine import ShardedEngine

            return ShardedEngine(world, num_micro_batches)
        case StrategyKind.DP:
            devices = devices_of(world.device, world.strategy.num_devices)
            spread = partial(DataParallel, devices=devices, autocast=world.autocast)
            return AccelerateEngine(world, num_micro_batches, ddp, spread)
        case StrategyKind.SINGLE | StrategyKind.DDP:
            if ddp.static_graph and num_micro_batches > 1:
                raise ConfigError(
                    "--accelerator.ddp.static_graph=true needs one micro-batch per step, not "
                    f"{num_micro_batches}: only the last one all-reduces gradients. Remove it"
                )
            return AccelerateEngine(world, num_micro_batches, ddp)
