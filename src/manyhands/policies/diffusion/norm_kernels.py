"""A Triton kernel for what follows a convolution: group norm, Mish, modulation and shortcut.

A thread block normalizes one group of one sample, whose values stay in registers meanwhile. It adds
up what several thread blocks of the convolution have computed.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

MAX_GROUP_SIZE = 2**14
"""Values of a group that fit into the registers of a thread block."""


def can_normalize(terms: Tensor, norm: nn.GroupNorm) -> bool:
    """Whether the kernel applies."""
    *_, steps, channels = terms.shape
    return steps * channels // norm.num_groups <= MAX_GROUP_SIZE


def norm_mish(
    terms: Tensor,
    norm: nn.GroupNorm,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    shortcut: Tensor | None = None,
) -> Tensor:
    """Mish of the group norm of a sum (terms, samples, steps, channels), modulated, added to."""
    # The shortcut is such a sum too.
    terms = terms.contiguous()
    num_terms, number, steps, channels = terms.shape
    output = torch.empty_like(terms[0])
    size = channels // norm.num_groups
    # Tensors that are not there are never read.
    scale_read, shift_read = (terms if each is None else _dense(each) for each in (scale, shift))
    added = terms[:0] if shortcut is None else shortcut.contiguous()
    if output.numel() > 0:
        _norm_mish[(number, norm.num_groups)](
            *(terms, norm.weight, norm.bias, scale_read, shift_read, added, output),
            *(scale_read.stride(0), shift_read.stride(0), norm.eps, output.numel()),
            *(steps, channels, size, num_terms, len(added)),
            *(scale is not None, shift is not None),
            *(triton.next_power_of_2(steps), triton.next_power_of_2(size)),
        )
    return output


def _dense(modulation: Tensor) -> Tensor:
    """A modulation whose channels are adjacent."""
    return modulation if modulation.stride(-1) == 1 else modulation.contiguous()


@triton.jit
def _norm_mish(
    terms,
    weight,
    bias,
    scale,
    shift,
    added,
    output,
    scale_stride,
    shift_stride,
    eps,
    term_size,
    steps: tl.constexpr,
    channels: tl.constexpr,
    size: tl.constexpr,
    num_terms: tl.constexpr,
    num_added: tl.constexpr,
    has_scale: tl.constexpr,
    has_shift: tl.constexpr,
    step_block: tl.constexpr,
    channel_block: tl.constexpr,
):
    sample, group = tl.program_id(0), tl.program_id(1)
    step, place = tl.arange(0, step_block)[:, None], tl.arange(0, channel_block)[None, :]
    channel, exists = group * size + place, place < size
    inside = exists & (step < steps)
    offset = (sample * steps + step) * channels + channel
    value = _total(terms + offset, inside, term_size, num_terms)
    mean = tl.sum(tl.sum(value, axis=1), axis=0) / (steps * size)
    value = tl.where(inside, value - mean, 0.0)
    variance = tl.sum(tl.sum(value * value, axis=1), axis=0) / (steps * size)
    factor = _read(weight + channel, exists) / tl.sqrt(variance + eps)
    value = _mish(value * factor + _read(bias + channel, exists))
    if has_scale:
        value *= _read(scale + sample * scale_stride + channel, exists)
    if has_shift:
        value += _read(shift + sample * shift_stride + channel, exists)
    if num_added > 0:
        value += _total(added + offset, inside, term_size, num_added)
    tl.store(output + offset, value, mask=inside)


@triton.jit
def _total(terms, mask, term_size, num_terms: tl.constexpr):
    total = _read(terms, mask)
    for number in tl.static_range(1, num_terms):
        total += _read(terms + number * term_size, mask)
    return total


@triton.jit
def _read(values, mask):
    return tl.load(values, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def _mish(value):
    # Beyond 20 it is the identity in single precision, and the exponential might overflow.
    power = tl.exp(tl.minimum(value, 20.0))
    power = power * (power + 2.0)
    return value * (power / (power + 2.0))
