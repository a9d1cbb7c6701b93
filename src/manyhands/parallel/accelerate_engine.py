"""The engine of unsharded runs: single process, DP and DDP, with Accelerate."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext

import torch
import torch.distributed as dist
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from manyhands.config.sections.execution import DdpConfig
from manyhands.parallel.collectives import check_thread, even_slice, is_local
from manyhands.parallel.cuda import on_side_stream
from manyhands.parallel.loss_scale import LossScale
from manyhands.parallel.nested import map_leaves
from manyhands.parallel.optimizer_step import gradients_of
from manyhands.parallel.world import World
from manyhands.types import Batch


# DDP rebuilds its buckets after the first backward pass. Sums over three or more processes depend
# on the layout in their last bits: the first step of a resumed run would differ from that of an
# uninterrupted run.
def rebuild_ddp_buckets(network: nn.Module) -> None:
    """Collective. Run a backward pass of zeros through DDP, from the last weight to the first."""
    # A static graph must see the real graph first.
    if not isinstance(network, DistributedDataParallel) or network.static_graph:
        return
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    network.reducer.prepare_for_backward([])
    # Autograd starts with the sum that was made last.
    sums = [weight.sum() for weight in weights]
    torch.autograd.backward(sums, [torch.zeros_like(each) for each in sums])
    for weight in weights:
        weight.grad = None


def build_accelerator(world: World, ddp: DdpConfig) -> Accelerator:
    """The Accelerator of an engine, until the ranks of the world leave each other."""
    world.on_teardown(reset_accelerate)
    return Accelerator(
        cpu=world.device.type == "cpu",
        mixed_precision=world.precision,
        kwargs_handlers=[
            DistributedDataParallelKwargs(
                static_graph=ddp.static_graph,
                gradient_as_bucket_view=ddp.gradient_as_bucket_view,
                # Every step uses every parameter, and buffers are identical on all ranks without
                # communication: batch norm, where there is any, synchronizes its statistics.
                find_unused_parameters=False,
                broadcast_buffers=False,
            )
        ],
    )


def reset_accelerate() -> None:
    """Let the next run of this process have another precision, device or number of ranks."""
    # Accelerate keeps them for the life of a process, and no public function ends that.
    AcceleratorState._reset_state(reset_partial_state=True)


Wrap = Callable[[nn.Module], nn.Module]  # Wraps the network that has the weights for training.


class AccelerateEngine:
    """Runs steps on ranks that each hold the full network, without synchronization."""

    def __init__(
        self,
        world: World,
        num_micro_batches: int,
        ddp: DdpConfig | None = None,
        wrap: Wrap | None = None,
    ) -> None:
        self._device = world.device
        self._ddp = ddp or DdpConfig()
        self._accelerator = build_accelerator(world, self._ddp)
        self._wrap = wrap or self._accelerator.prepare
        self._num_micro_batches = num_micro_batches
        self._scale = LossScale(world.loss_scaler, world.device)
        self.scales_losses = self._scale.is_used
        self._wrapped: nn.Module = nn.Identity()

    def prepare(self, network: nn.Module) -> nn.Module:
        """The wrapped network; the given one keeps the weights."""
        with warnings.catch_warnings():
            # The newest torch renames broadcast_buffers, which older ones still need.
            warnings.simplefilter("ignore", FutureWarning)
            # DDP reads gradients from the stream in which it was created.
            with on_side_stream(self._device):
                self._wrapped = self._wrap(network)
                if self._ddp.gradient_compression == "bf16":
                    compress_gradients(self._wrapped)
                rebuild_ddp_buckets(self._wrapped)
        return self._wrapped

    @property
    def changed(self) -> Sequence[Tensor]:
        """The loss scale of fp16 and its state."""
        return self._scale.tensors

    def micro_batches(self, batch: Batch) -> Iterator[Batch]:
        """The micro-batches of this rank; the last one synchronizes gradients."""
        check_thread()
        for number in range(1, self._num_micro_batches + 1):
            is_shared = number == self._num_micro_batches and not is_local()
            # The consumer's forward and backward run while this generator is suspended in here.
            with nullcontext() if is_shared else self._accelerator.no_sync(self._wrapped):
                yield micro_batch(batch, number - 1, self._num_micro_batches)

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss."""
        self._scale.backward(loss)

    def step(self, optimizer: Optimizer, max_norm: float) -> Tensor:
        """Clip gradients and update the weights; return the norm before clipping."""
        norm = get_total_norm(gradients_of(optimizer))
        return self._scale.step(optimizer, norm, max_norm)

    def scaler_state(self) -> dict[str, float]:
        """State of the fp16 loss scaler; empty in other precisions."""
        return self._scale.state_dict()

    def load_scaler_state(self, state: dict[str, float]) -> None:
        """Continue with a saved loss scale."""
        self._scale.load_state_dict(state)


def micro_batch(batch: Batch, number: int, num_micro_batches: int) -> Batch:
    """One even slice of a batch, including nested dictionaries and tuples."""
    if num_micro_batches == 1:
        return batch

    def cut(value: object) -> object:
        if isinstance(value, Tensor | list):
            return value[even_slice(len(value), number, num_micro_batches)]
        return value

    return {key: map_leaves(value, cut) for key, value in batch.items()}


# PyTorch has such a hook for GPUs only. Weights and accumulated gradients stay in full precision.
def compress_gradients(network: nn.Module) -> nn.Module:
    """Register the hook if the network is wrapped in DDP."""
    if isinstance(network, DistributedDataParallel):
        network.register_comm_hook(None, bf16_all_reduce)
    return network


def bf16_all_reduce(_state: None, bucket: GradBucket) -> Future[Tensor]:
    """Collective. The mean of gradients over processes, communicated in bf16."""
    whole = bucket.buffer()
    rounded = whole.to(torch.bfloat16).div_(dist.get_world_size())
    work = dist.all_reduce(rounded, async_op=True)
    assert work is not None
    summed: Future[list[Tensor]] = work.get_future()
    return summed.then(lambda done: whole.copy_(done.value()[0]))
