"""A Triton kernel of convolutions over few steps, where reading the weights takes the time.

A thread block computes a few channels for all steps of all samples, so that every weight is read
once. Several of them share the inputs of these channels: one for each, most of a GPU is idle.
"""

import triton
import triton.language as tl
from torch import Tensor, float32, nn

Convolution = nn.Conv1d | nn.ConvTranspose1d

MAX_ROWS = 64
"""Output steps of all samples that one thread block holds."""
CHANNEL_BLOCK: tl.constexpr = tl.constexpr(16)
MIN_ROW_BLOCK, MIN_INPUT_BLOCK = 16, 16
MAX_VALUES = 2048
"""Hidden values that a thread block loads at once, so that four fit into the shared memory."""
NUM_STAGES, NUM_WARPS = 3, 2
NUM_THREAD_BLOCKS = 512
"""As many as keep a large GPU busy; the same on all, which then round alike."""
MIN_TERM_BLOCKS = 2
"""Blocks of inputs that are worth a thread block."""


def can_convolve(hidden: Tensor, conv: Convolution) -> bool:
    """Whether the kernel applies: in single precision, over few steps."""
    is_single = hidden.dtype == conv.weight.dtype == float32
    rows = hidden.shape[0] * num_output_steps(hidden.shape[1], conv)
    return is_single and conv.bias is not None and 0 < rows <= MAX_ROWS


def num_output_steps(steps: int, conv: Convolution) -> int:
    """How many steps a convolution makes out of these."""
    assert not isinstance(conv.padding, str)
    (kernel,), (stride,), (padding,) = conv.kernel_size, conv.stride, conv.padding
    if isinstance(conv, nn.ConvTranspose1d):
        return (steps - 1) * stride - 2 * padding + kernel
    return (steps + 2 * padding - kernel) // stride + 1


def convolve_few(hidden: Tensor, conv: Convolution) -> Tensor:
    """A convolution over the steps of (samples, steps, channels), as the terms of a sum."""
    hidden, is_transposed = hidden.contiguous(), isinstance(conv, nn.ConvTranspose1d)
    number, steps, num_inputs = hidden.shape
    output_steps = num_output_steps(steps, conv)
    row_block = max(MIN_ROW_BLOCK, triton.next_power_of_2(number * output_steps))
    input_block = min(triton.next_power_of_2(num_inputs), MAX_VALUES // row_block)
    input_block = max(MIN_INPUT_BLOCK, input_block)
    channel_blocks = triton.cdiv(conv.out_channels, CHANNEL_BLOCK.value)
    blocks = conv.kernel_size[0] * triton.cdiv(num_inputs, input_block)
    term_blocks = triton.cdiv(blocks, max(1, NUM_THREAD_BLOCKS // channel_blocks))
    term_blocks = max(term_blocks, MIN_TERM_BLOCKS)
    num_terms = triton.cdiv(blocks, term_blocks)
    shape = (num_terms, number, output_steps, conv.out_channels)
    terms = hidden.new_empty(shape)
    _convolve[(channel_blocks, num_terms)](
        *(hidden, conv.weight, conv.bias, terms, number * output_steps, steps, output_steps),
        *(*conv.stride, *conv.padding, *weight_strides(conv), term_blocks, is_transposed),
        *(num_inputs, conv.out_channels, *conv.kernel_size),
        *(row_block, input_block),
        num_stages=NUM_STAGES,
        num_warps=NUM_WARPS,
    )
    return terms


def weight_strides(conv: Convolution) -> tuple[int, int, int]:
    """Distances in memory between the weights of adjacent inputs, outputs and taps."""
    first, second, tap = conv.weight.stride()
    return (first, second, tap) if isinstance(conv, nn.ConvTranspose1d) else (second, first, tap)


@triton.jit
def _convolve(
    hidden,
    weight,
    bias,
    terms,
    rows,
    steps,
    output_steps,
    stride,
    padding,
    input_stride: tl.constexpr,
    output_stride: tl.constexpr,
    tap_stride: tl.constexpr,
    term_blocks: tl.constexpr,
    is_transposed: tl.constexpr,
    num_inputs: tl.constexpr,
    num_outputs: tl.constexpr,
    kernel: tl.constexpr,
    row_block: tl.constexpr,
    input_block: tl.constexpr,
):
    row, place, term = tl.arange(0, row_block), tl.arange(0, input_block), tl.program_id(1)
    channel = tl.program_id(0) * CHANNEL_BLOCK + tl.arange(0, CHANNEL_BLOCK)
    exists = channel < num_outputs
    num_blocks: tl.constexpr = (num_inputs + input_block - 1) // input_block
    total = tl.zeros((row_block, CHANNEL_BLOCK), tl.float32)
    if term == 0:
        total += _read(bias + channel, exists)[None, :]
    last = tl.minimum((term + 1) * term_blocks, kernel * num_blocks)
    for block in range(term * term_blocks, last):
        tap, source = block // num_blocks, (block % num_blocks) * input_block + place
        given = source < num_inputs
        step = _source_step(row % output_steps, tap, stride, padding, is_transposed)
        seen = (row < rows) & (step >= 0) & (step < steps)
        first_value = (row // output_steps * steps + step) * num_inputs
        value = _read(hidden + _sums(first_value, source), _both(seen, given))
        index = _sums(source * input_stride, channel * output_stride + tap * tap_stride)
        total = tl.dot(value, _read_once(weight + index, _both(given, exists)), total)
    target = _sums((term * rows + row) * num_outputs, channel)
    tl.store(terms + target, total, mask=_both(row < rows, exists))


@triton.jit
def _sums(row, column):
    return row[:, None] + column[None, :]


@triton.jit
def _both(row, column):
    return row[:, None] & column[None, :]


@triton.jit
def _source_step(output_step, tap, stride, padding, is_transposed: tl.constexpr):
    """The input step that a tap reads; -1 for none."""
    if is_transposed:
        # Output step = input step * stride - padding + tap.
        scaled = output_step + padding - tap
        step = tl.where((scaled >= 0) & (scaled % stride == 0), scaled // stride, -1)
    else:
        step = output_step * stride - padding + tap
    return step


@triton.jit
def _read(values, mask):
    return tl.load(values, mask=mask, other=0.0)


@triton.jit
def _read_once(values, mask):
    # The weights of all layers do not fit into the cache; hidden values should stay there.
    return tl.load(values, mask=mask, other=0.0, eviction_policy="evict_first")
