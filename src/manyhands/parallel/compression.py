"""DDP communication hook that all-reduces gradients in bf16.

PyTorch has such a hook for GPUs only. Weights and accumulated gradients stay in full precision.
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel


def compress_gradients(network: nn.Module) -> nn.Module:
    """Register the hook if the network is wrapped in DDP."""
    if isinstance(network, DistributedDataParallel):
        network.register_comm_hook(None, exchange_rounded)
    return network


def exchange_rounded(_state: None, bucket: GradBucket) -> Future[Tensor]:
    """Collective. The mean of gradients over processes, communicated in bf16."""
    whole = bucket.buffer()
    rounded = whole.to(torch.bfloat16).div_(dist.get_world_size())
    work = dist.all_reduce(rounded, async_op=True)
    assert work is not None
    summed: Future[list[Tensor]] = work.get_future()
    return summed.then(lambda done: whole.copy_(done.value()[0]))
