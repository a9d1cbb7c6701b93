"""The engine of FSDP2 and HSDP: ranks shard the weights, and all-gather them layer by layer.

Weights and optimizer state stay in full precision; with mixed precision only the gathered copies
are rounded. A forward pass is collective: every rank must run it.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from manyhands.errors import ConfigError
from manyhands.parallel.accelerate_engine import micro_batch
from manyhands.parallel.collectives import check_thread, is_local
from manyhands.parallel.loss_scale import LossScale
from manyhands.parallel.optimizer_step import gradients_of
from manyhands.parallel.strategy import Strategy
from manyhands.parallel.world import World
from manyhands.types import Batch


class NoCommunication:
    """Replaces a collective of FSDP; the data of other ranks is zero."""

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Allocate the communication buffer."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, **_: object) -> None:
        output_tensor.zero_()


def disable_communication(network: nn.Module) -> None:
    """Let a sharded network run without other ranks; its results are meaningless then."""
    for module in network.modules():
        if isinstance(module, FSDPModule):
            # Torch types these by classes that it does not publish.
            unit = cast(Any, module)
            unit.set_custom_all_gather(NoCommunication())
            unit.set_custom_reduce_scatter(NoCommunication())


class ShardedEngine:
    """Runs steps on ranks that shard one or several replicas of the weights."""

    def __init__(self, world: World, num_micro_batches: int) -> None:
        self._world = world
        self._num_micro_batches = num_micro_batches
        self._scale = LossScale(world.loss_scaler, world.device)
        self.scales_losses = self._scale.is_used
        self._root: FSDPModule | None = None

    @property
    def changed(self) -> Sequence[Tensor]:
        """The loss scale of fp16 and its state."""
        return self._scale.tensors

    def prepare(self, network: nn.Module) -> nn.Module:
        """The wrapped network; the weights of the given one become shards."""
        refuse_scalars(network)
        refuse_several_types(network)
        make_contiguous(network)
        fsdp = self._world.strategy.fsdp
        settings = self._settings()
        for unit in shard_units(network, fsdp.wrap_modules):
            fully_shard(
                unit,
                reshard_after_forward=fsdp.reshard_after_forward,
                mp_policy=self._precision_of(unit),
                **settings,
            )
        self._root = fully_shard(network, mp_policy=self._precision_of(network), **settings)
        if is_local():
            disable_communication(network)
        network.register_forward_hook(_reshard_after_evaluation)
        return Autocast(network, self._world)

    def _settings(self) -> dict[str, Any]:
        strategy, device = self._world.strategy, self._world.device
        offload = OffloadPolicy()
        if strategy.fsdp.cpu_offload:
            offload = CPUOffloadPolicy(pin_memory=device.type == "cuda")
        mesh = build_mesh(strategy, device.type, self._world.timeout)
        # Without communication a rank holds its shard of one replica.
        return {"mesh": mesh["shard"] if is_local() else mesh, "offload_policy": offload}

    def _precision_of(self, unit: nn.Module) -> MixedPrecisionPolicy:
        """The precision of gathered weights; gradients are reduced in full precision."""
        is_rounded = self._world.precision != "no" and self._world.device.type == "cuda"
        # Norms on a CPU, and those with statistics anywhere, take weights in full precision only;
        # autocast then rounds what it should.
        if not is_rounded or has_statistics(unit):
            return MixedPrecisionPolicy(cast_forward_inputs=False)
        dtype = torch.float16 if self._world.precision == "fp16" else torch.bfloat16
        return MixedPrecisionPolicy(
            param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False
        )

    def micro_batches(self, batch: Batch) -> Iterator[Batch]:
        """The micro-batches of this rank; the last one synchronizes gradients."""
        assert self._root is not None
        check_thread()
        for number in range(self._num_micro_batches):
            self._root.set_requires_gradient_sync(number == self._num_micro_batches - 1)
            yield micro_batch(batch, number, self._num_micro_batches)

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss."""
        self._scale.backward(loss)

    @torch.no_grad()
    def step(self, optimizer: Optimizer, max_norm: float) -> Tensor:
        """Collective. Clip gradients and update weights; return the global norm before clipping."""
        own = get_total_norm(gradients_of(optimizer)).to(self._world.device)
        # Every replica has the same gradients.
        norm = (self._world.sum(own.square()) / self._world.strategy.num_replicas).sqrt()
        return self._scale.step(optimizer, norm, max_norm)

    def scaler_state(self) -> dict[str, float]:
        """State of the fp16 loss scaler; empty in other precisions."""
        return self._scale.state_dict()

    def load_scaler_state(self, state: dict[str, float]) -> None:
        """Continue with a saved loss scale."""
        self._scale.load_state_dict(state)


class Autocast(nn.Module):
    """A network under autocast."""

    def __init__(self, network: nn.Module, world: World) -> None:
        super().__init__()
        self.network = network
        self._autocast = world.autocast

    def forward(self, *inputs: Any) -> Any:
        """Run the network under autocast."""
        with self._autocast():
            return self.network(*inputs)


def build_mesh(strategy: Strategy, device_type: str, timeout: timedelta) -> DeviceMesh:
    """The device mesh; consecutive ranks shard one replica."""
    if strategy.num_replicas == 1:
        return init_device_mesh(device_type, (strategy.num_shards,), mesh_dim_names=("shard",))
    ranks = torch.arange(strategy.num_replicas * strategy.num_shards).view(
        strategy.num_replicas, -1
    )
    # Groups made by the mesh itself would have torch's default timeout.
    # Torch does not declare the types of this function.
    make_groups = cast(Any, dist).new_subgroups_by_enumeration
    groups = [make_groups(each.tolist(), timeout=timeout)[0] for each in (ranks.T, ranks)]
    return DeviceMesh.from_group(groups, device_type, ranks, mesh_dim_names=("replicate", "shard"))


def shard_units(network: nn.Module, names: list[str] | None) -> list[nn.Module]:
    """Modules to wrap, inner ones first: those named, or those the network declares."""
    inner = [*network.modules()][:0:-1]
    if names is None:
        declared = getattr(network, "shard_units", ())
        return [module for module in inner if isinstance(module, declared)]
    known = {name for module in inner for name in names_of(module)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(
            f"--accelerator.fsdp.wrap_modules: this policy has no {', '.join(unknown)}. Its "
            f"modules: {', '.join(sorted(known))}"
        )
    return [module for module in inner if names_of(module) & set(names)]


def names_of(module: nn.Module) -> set[str]:
    """The class names of a module, here and in LeRobot."""
    here = type(module).__name__
    return {here, getattr(module, "lerobot_class", here)}


def has_statistics(unit: nn.Module) -> bool:
    """Whether a unit has a norm with running statistics and trainable weights."""
    return any(
        "running_mean" in dict(module.named_buffers(recurse=False))
        and next(module.parameters(recurse=False), None) is not None
        for module in unit.modules()
    )


def refuse_scalars(network: nn.Module) -> None:
    """Reject scalar parameters, which cannot be sharded; the error names them."""
    scalars = [name for name, value in network.named_parameters() if value.ndim == 0]
    if scalars:
        raise ConfigError(
            f"--parallelism.dp_shard cannot shard scalars: {', '.join(scalars)}. Give them "
            "shape (1,), or do not shard"
        )


def refuse_several_types(network: nn.Module) -> None:
    """Reject weights of several dtypes, whose gradients cannot be reduced together."""
    kinds = {str(value.dtype) for value in network.parameters() if value.requires_grad}
    if len(kinds) > 1:
        raise ConfigError(
            f"--parallelism.dp_shard cannot train weights of {' and '.join(sorted(kinds))} "
            "together. Do not shard, or remove --policy.exact if it is set"
        )


def make_contiguous(network: nn.Module) -> None:
    """Make weights contiguous, which sharding needs."""
    for weight in network.parameters():
        weight.data = weight.data.contiguous()


def _reshard_after_evaluation(module: nn.Module, _inputs: Any, _output: Any) -> None:
    """Free gathered weights where no backward pass does; they may change before the next pass."""
    if torch.is_grad_enabled():
        return
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()
