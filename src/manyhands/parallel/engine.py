"""The engine that a run's strategy calls for."""

from functools import partial

from torch import nn

from manyhands.config.parallelism import DdpConfig
from manyhands.errors import ConfigError
from manyhands.parallel.accelerated import AcceleratedEngine
from manyhands.parallel.compression import compress_gradients
from manyhands.parallel.replicated import Replicated, devices_of
from manyhands.parallel.strategy import Kind
from manyhands.parallel.world import World
from manyhands.types import Engine


def engine_of(world: World, num_micro_batches: int, ddp: DdpConfig) -> Engine:
    """What spreads updates over the devices of a world."""
    match world.strategy.kind:
        case Kind.FSDP | Kind.HSDP:
            # Brings in torch's sharding, which takes a second to import.
            from manyhands.parallel.sharded import ShardedEngine

            return ShardedEngine(world, num_micro_batches)
        case Kind.DP:
            devices = devices_of(world.device, world.strategy.num_devices)
            spread = partial(Replicated, devices=devices, autocast=world.accelerator.autocast)
            return AcceleratedEngine(world, num_micro_batches, spread)
        case Kind.SINGLE | Kind.DDP:
            refuse_static_parts(ddp, num_micro_batches)
            wrap = partial(_prepared, world, ddp)
            return AcceleratedEngine(world, num_micro_batches, wrap)


def refuse_static_parts(ddp: DdpConfig, num_micro_batches: int) -> None:
    """Refuse micro-batches of which only the last exchanges gradients, promised to be alike."""
    if ddp.static_graph and num_micro_batches > 1:
        raise ConfigError(
            [
                "--accelerator.ddp.static_graph=true needs one micro-batch per step, not "
                f"{num_micro_batches}: only the last one all-reduces gradients. Remove it"
            ]
        )


def _prepared(world: World, ddp: DdpConfig, network: nn.Module) -> nn.Module:
    prepared: nn.Module = world.accelerator.prepare(network)
    return compress_gradients(prepared) if ddp.gradient_compression == "bf16" else prepared
