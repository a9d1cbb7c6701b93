"""Where gradients lie while DDP's processes add them up, the same from the first update on.

DDP lays them out anew once it has seen a backward pass. Sums over three or more processes depend on
the layout in their last bits: the first update of a run that goes on would be unlike that of a run
that was never interrupted.
"""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def settle_buckets(network: nn.Module) -> None:
    """Collective. Let DDP see a backward pass, of nothing, that reaches weights last to first."""
    # A graph that is declared static must be seen as it is.
    if not isinstance(network, DistributedDataParallel) or network.static_graph:
        return
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    network.reducer.prepare_for_backward([])
    # Of several sums, autograd goes back from the one made last.
    sums = [weight.sum() for weight in weights]
    torch.autograd.backward(sums, [torch.zeros_like(each) for each in sums])
    for weight in weights:
        weight.grad = None
