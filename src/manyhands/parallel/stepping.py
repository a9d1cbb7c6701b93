"""A step of an optimizer that leaves everything as it was where gradients are not finite.

Whether they are is known to the device alone, and nobody asks it: the step is decided there.
"""

from typing import Any, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

from manyhands.parallel.shards import held_part


def step_if_finite(optimizer: Optimizer, norm: Tensor) -> None:
    """Update weights, unless the norm of their gradients is not finite."""
    first = optimizer.param_groups[0]["params"][0]
    # Weights that are kept in the host's memory are updated there.
    is_bad = (~norm.isfinite()).to(first.device)
    if all(group["fused"] for group in optimizer.param_groups):
        _fused_step(optimizer, is_bad)
    else:
        _step_and_take_back(optimizer, is_bad)


def _fused_step(optimizer: Optimizer, is_bad: Tensor) -> None:
    # Fused kernels look for this attribute, by which loss scalers tell them of an overflow.
    telling = cast(Any, optimizer)
    telling.found_inf = is_bad.float()
    try:
        optimizer.step()
    finally:
        del telling.found_inf


@torch.no_grad()
def _step_and_take_back(optimizer: Optimizer, is_bad: Tensor) -> None:
    before = {place: value.clone() for place, value in tensors_of(optimizer).items()}
    optimizer.step()
    for place, value in tensors_of(optimizer).items():
        # What an optimizer begins to remember with a step, it then has from zero.
        kept = before.get(place, torch.zeros_like(value))
        value.copy_(torch.where(is_bad.to(value.device), kept, value))


def tensors_of(optimizer: Optimizer) -> dict[tuple[int, str], Tensor]:
    """What a step may change: weights, and what is remembered of them."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    found: dict[tuple[int, str], Tensor] = {}
    for index, weight in enumerate(weights):
        named = {"": weight, **optimizer.state.get(weight, {})}
        found |= {
            (index, name): held_part(value.detach())
            for name, value in named.items()
            if isinstance(value, Tensor)
        }
    return found
