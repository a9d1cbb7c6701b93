"""What two ranks see of sharded weights and of rounded gradients; started once per rank."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule

from manyhands.config.policies.act import ActConfig
from manyhands.config.sections.execution import DdpConfig, FsdpConfig
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError
from manyhands.parallel.collectives import without_communication
from manyhands.parallel.engine import build_engine
from manyhands.parallel.host_buffers import HostBuffers
from manyhands.parallel.sharded_tensors import (
    fill,
    full_tensor,
    gathered,
    local_shards,
    local_tensor,
    shard_like,
)
from manyhands.parallel.strategy import Strategy
from manyhands.parallel.world import World, joined_world

INPUT = torch.linspace(-1, 1, 12).view(4, 3)


class Layer(nn.Module):
    """A layer worth gathering by itself."""

    lerobot_class = "TheirLayer"

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(values))


class Net(nn.Module):
    """Two layers and a head with fewer rows than ranks."""

    shard_units = (Layer,)

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.head = nn.Linear(3, 1)
        self.register_buffer("shift", torch.ones(1))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            values = layer(values)
        return self.head(values) + self.shift


def sharding(**fsdp: Any) -> Strategy:
    """Two processes that share the weights."""
    return Strategy(num_shards=2, fsdp=FsdpConfig(**fsdp))


def updated(
    world: World, strategy: Strategy, max_norm: float = 0.0, num_micro_batches: int = 1
) -> dict[str, Any]:
    """The norm of one update on this rank's half of the input, and the weights it leaves."""
    world.strategy, network = strategy, Net()
    engine = build_engine(world, num_micro_batches, DdpConfig(gradient_compression="bf16"))
    wrapped = engine.prepare(network)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1, fused=True)
    own = {"x": INPUT[2 * world.rank : 2 * world.rank + 2]}
    for part in engine.micro_batches(own):
        engine.backward(wrapped(part["x"]).sum())
    norm = engine.step(optimizer, max_norm)
    weights = gathered(network.state_dict(), world.is_main, HostBuffers())
    gradients = [full_tensor(weight.grad).flatten().tolist() for weight in network.parameters()]
    return {
        "norm": norm.item(),
        "gradients": gradients,
        "weights": {name: value.tolist() for name, value in weights.items()},
        "num_units": sum(isinstance(each, FSDPModule) for each in network.modules()),
    }


def held(world: World) -> dict[str, Any]:
    """What ranks hold of weights, and what becomes of whole ones."""
    world.strategy, network = sharding(reshard_after_forward=False), Net()
    wrapped = build_engine(world, 1, DdpConfig()).prepare(network)
    part, alone = network.layers[0].linear.weight, Net().layers[0].linear.weight
    found = {
        "rows": len(local_tensor(part)),
        "numbers of the head": local_tensor(network.head.weight).numel(),
        "is whole": torch.equal(full_tensor(part.detach()), alone),
        "is cut": torch.equal(
            local_tensor(shard_like(alone.detach(), part)), local_tensor(part.detach())
        ),
        "parts": {
            name: [len(part.values), part.offsets]
            for name, part in local_shards(
                network.state_dict(), world.is_main, HostBuffers()
            ).items()
        },
        "scalar": shard_like(torch.tensor(3.0), part).item(),
    }
    fill(network.state_dict(), {name: value + 1 for name, value in Net().state_dict().items()})
    moved = gathered(network.state_dict(), world.is_main, HostBuffers())
    with torch.no_grad():
        wrapped(INPUT)
        fill(network.state_dict(), Net().state_dict())
        found["is fresh"] = torch.allclose(wrapped(INPUT), Net()(INPUT))
    is_filled = [torch.equal(value, Net().state_dict()[name] + 1) for name, value in moved.items()]
    return found | {"gathered": sorted(moved), "are filled": is_filled}


def spoiled(world: World, strategy: Strategy) -> dict[str, Any]:
    """What becomes of weights when the gradients of one rank are not finite."""
    world.strategy, network = strategy, Net()
    engine = build_engine(world, 1, DdpConfig())
    wrapped = engine.prepare(network)
    before = [local_tensor(weight.detach()).clone() for weight in network.parameters()]
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1, fused=True)
    for part in engine.micro_batches({"x": INPUT}):
        engine.backward(wrapped(part["x"]).sum() * (torch.nan if world.rank == 1 else 1.0))
    norm = engine.step(optimizer, 0.5)
    after = [local_tensor(weight.detach()) for weight in network.parameters()]
    pairs = zip(before, after, strict=True)
    return {
        "is told": not norm.isfinite().item(),
        "is kept": all(torch.equal(one, other) for one, other in pairs),
        "scale": engine.scaler_state().get("scale"),
    }


def scaled(world: World, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a rank finds in a run that scales its losses."""
    world.loss_scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    try:
        return work()
    finally:
        world.loss_scaler = None


def solitary(world: World, strategy: Strategy) -> int:
    """How many updates this rank makes by itself; others make another number of them."""
    world.strategy, num_updates = strategy, 1 + 2 * world.rank
    with without_communication():
        network = Net()
        engine = build_engine(world, 2, DdpConfig())
        wrapped = engine.prepare(network)
        optimizer = torch.optim.AdamW(network.parameters(), fused=True)
        for _ in range(num_updates):
            for part in engine.micro_batches({"x": INPUT}):
                engine.backward(wrapped(part["x"]).sum())
            engine.step(optimizer, 1.0)
    return num_updates


def refused(world: World) -> str:
    """What is said of layers that a network does not have."""
    world.strategy = sharding(wrap_modules=["Nothing", "Layer"])
    try:
        build_engine(world, 1, DdpConfig()).prepare(Net())
    except ConfigError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    with joined_world(TrainConfig(policy=ActConfig(device="cpu"))) as world:
        said = {
            "held": held(world),
            "refused": refused(world),
            "plain": updated(world, sharding()),
            "clipped": updated(world, sharding(), max_norm=0.5),
            "parts": updated(world, sharding(), num_micro_batches=2),
            "kept": updated(world, sharding(reshard_after_forward=False)),
            "offloaded": updated(world, sharding(cpu_offload=True), max_norm=0.5),
            "one unit": updated(world, sharding(wrap_modules=[])),
            "named": updated(world, sharding(wrap_modules=["TheirLayer"])),
            "scaled": scaled(world, lambda: updated(world, sharding())),
            "scaled and clipped": scaled(world, lambda: updated(world, sharding(), max_norm=0.5)),
            "overflow": [
                scaled(world, lambda strategy=strategy: spoiled(world, strategy))
                for strategy in (Strategy(num_replicas=2), sharding(), sharding(cpu_offload=True))
            ],
            "rounded": updated(world, Strategy(num_replicas=2)),
            "spoiled": [
                spoiled(world, strategy)
                for strategy in (Strategy(num_replicas=2), sharding(), sharding(cpu_offload=True))
            ],
            "solitary": [
                solitary(world, strategy) for strategy in (Strategy(num_replicas=2), sharding())
            ],
        }
    Path(sys.argv[1], f"{world.rank}.json").write_text(json.dumps(said))
