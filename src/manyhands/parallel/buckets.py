"""Fixes the layout of DDP's gradient buckets before the first step.

DDP rebuilds its buckets after the first backward pass. Sums over three or more processes depend on
the layout in their last bits: the first step of a resumed run would differ from that of an
uninterrupted run.
"""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def settle_buckets(network: nn.Module) -> None:
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
