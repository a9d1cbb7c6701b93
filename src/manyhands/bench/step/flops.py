"""Floating-point operations of an update, counted as its network is defined.

Products, convolutions and attention count, in the forward and in the backward pass; sums, norms,
activations and the optimizer, a percent or so of them, do not. A multiplication and an addition
are two operations.
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
"""Samples that are looked at; every other one takes as many operations."""


def flops_per_update(subject: Subject, world: World) -> int:
    """Operations of an update, by a policy of its own that is never trained."""
    policy, _ = make_policy(subject.config, subject.stats, world.device)
    policy.train()
    number = min(NUM_COUNTED, subject.share.samples_per_rank)
    batch = first_samples(subject.batch, number)
    counted = counted_flops(lambda: policy.training_loss(batch)[0])
    return counted * subject.share.samples_per_rank // number


def counted_flops(loss: Callable[[], Tensor]) -> int:
    """Operations to compute a loss and its gradients."""
    # Fused kernels of attention hide their products, on a CPU from the counter as well.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        torch.autograd.backward(loss())
    return int(counter.get_total_flops())
