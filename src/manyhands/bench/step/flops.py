"""FLOPs of a step, counted from the definition of its network.

Matmuls, convolutions and attention count, in the forward and the backward pass; sums, norms,
activations and the optimizer, about one percent, do not. A multiply-add is two FLOPs.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from manyhands.bench.step.subject import Subject, first_samples
from manyhands.parallel.world import World
from manyhands.training.assemble import make_policy

NUM_COUNTED = 2
"""Samples to count; all others take the same FLOPs."""


def flops_per_update(subject: Subject, world: World) -> int:
    """FLOPs of a step, counted on a separate policy."""
    policy, _ = make_policy(subject.config, subject.stats, world.device)
    policy.train()
    number = min(NUM_COUNTED, subject.share.samples_per_rank)
    batch = first_samples(subject.batch, number)
    counted = counted_flops(lambda: policy.training_loss(batch)[0])
    return counted * subject.share.samples_per_rank // number


def counted_flops(loss: Callable[[], Tensor]) -> int:
    """FLOPs of a loss and its gradients."""
    # Fused attention hides its matmuls, on a CPU also from the counter.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        torch.autograd.backward(loss())
    return int(counter.get_total_flops())
