"""Optimizer steps with gradient clipping that skip non-finite gradients.

The device decides whether to skip, without synchronization.
"""

from typing import Any, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

from manyhands.parallel.sharded_tensors import local_tensor

_EPS = 1e-6  # Added to a norm before a division, as in torch.


def clip_and_step(
    optimizer: Optimizer, norm: Tensor, max_norm: float, scale: Tensor | None = None
) -> None:
    """Clip gradients to a maximal norm, zero for none, and update weights."""
    # Gradients may be scaled, the norm is not; a non-finite norm changes nothing.
    first = optimizer.param_groups[0]["params"][0]
    # Weights offloaded to host memory are updated there.
    norm = norm.to(first.device)
    divisor = ((norm + _EPS) / max_norm).clamp(min=1.0) if max_norm > 0 else None
    if scale is not None:
        scale = scale.to(first.device)
        divisor = scale if divisor is None else divisor * scale
    is_fused = all(group.get("fused") for group in optimizer.param_groups)
    # Fused kernels take only a float32 scale.
    if divisor is not None and not (is_fused and divisor.dtype == torch.float32):
        torch._foreach_div_(gradients_of(optimizer), divisor)
        divisor = None
    if is_fused:
        _fused_step(optimizer, ~norm.isfinite(), divisor)
    else:
        _step_or_restore(optimizer, ~norm.isfinite())


def _fused_step(optimizer: Optimizer, is_bad: Tensor, divisor: Tensor | None) -> None:
    # Attributes by which loss scalers pass overflow and scale to fused kernels. The kernel divides
    # gradients by the scale, which saves a pass over them.
    fused = cast(Any, optimizer)
    fused.found_inf, fused.grad_scale = is_bad.float(), divisor
    try:
        optimizer.step()
    finally:
        del fused.found_inf, fused.grad_scale


@torch.no_grad()
def _step_or_restore(optimizer: Optimizer, is_bad: Tensor) -> None:
    before = {place: value.clone() for place, value in tensors_of(optimizer).items()}
    optimizer.step()
    for place, value in tensors_of(optimizer).items():
        # State that an optimizer creates in a step is reset to zero.
        kept = before.get(place, torch.zeros_like(value))
        value.copy_(torch.where(is_bad.to(value.device), kept, value))


def gradients_of(optimizer: Optimizer) -> list[Tensor]:
    """This rank's gradients of all weights."""
    weights = trained_weights(optimizer)
    return [local_tensor(weight.grad) for weight in weights if weight.grad is not None]


def tensors_of(optimizer: Optimizer) -> dict[tuple[int, str], Tensor]:
    """What a step may change: trainable weights and their optimizer state."""
    found: dict[tuple[int, str], Tensor] = {}
    for index, weight in enumerate(trained_weights(optimizer)):
        named = {"": weight, **optimizer.state.get(weight, {})}
        found |= {
            (index, name): local_tensor(value.detach())
            for name, value in named.items()
            if isinstance(value, Tensor)
        }
    return found


def trained_weights(optimizer: Optimizer) -> list[Tensor]:
    """The weights of an optimizer without frozen ones."""
    return [weight for weight in weights_of(optimizer) if weight.requires_grad]


def weights_of(optimizer: Optimizer) -> list[Tensor]:
    """All weights of an optimizer."""
    return [weight for group in optimizer.param_groups for weight in group["params"]]
