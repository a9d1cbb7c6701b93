"""A Triton kernel of convolutions over few steps, where reading the weights takes the time.

Each thread block computes a few channels for all steps of all samples, so that every weight is
read once; kernels for many steps leave most of the GPU idle.
"""

import triton
import triton.language as tl
from torch import Tensor, nn

MAX_ROWS = 64
"""Output steps of all samples that one thread block holds."""
CHANNEL_BLOCK, MIN_INPUT_BLOCK, INPUT_BLOCK = 16, 32, 256
NUM_STAGES = 3


def can_convolve(hidden: Tensor, conv: nn.Conv1d) -> bool:
    """Whether the kernel applies: few steps, and channels by whole blocks."""
    num_inputs, num_outputs = conv.in_channels, conv.out_channels
    rows = hidden.shape[0] * hidden.shape[1]
    return (
        0 < rows <= MAX_ROWS
        and num_inputs % MIN_INPUT_BLOCK == 0
        and num_outputs % CHANNEL_BLOCK == 0
        and conv.bias is not None
        and conv.weight.dtype == hidden.dtype
    )


def convolve_few(hidden: Tensor, conv: nn.Conv1d) -> Tensor:
    """A convolution over the steps of (samples, steps, channels)."""
    hidden, weight = hidden.contiguous(), conv.weight.mT.contiguous()
    (kernel,), (stride,) = conv.kernel_size, conv.stride
    assert not isinstance(conv.padding, str)
    (padding,) = conv.padding
    number, steps, num_inputs = hidden.shape
    output_steps = (steps + 2 * padding - kernel) // stride + 1
    output = hidden.new_empty(number, output_steps, conv.out_channels)
    rows = number * output_steps
    block = INPUT_BLOCK
    while num_inputs % block:
        block //= 2
    _convolve[(conv.out_channels // CHANNEL_BLOCK,)](
        *(hidden, weight, conv.bias, output, rows, steps, output_steps, stride, padding),
        *(num_inputs, conv.out_channels, kernel),
        *(max(16, triton.next_power_of_2(rows)), CHANNEL_BLOCK, block),
        num_stages=NUM_STAGES,
    )
    return output


@triton.jit
def _convolve(
    hidden,
    weight,
    bias,
    output,
    rows,
    steps,
    output_steps,
    stride,
    padding,
    num_inputs: tl.constexpr,
    num_outputs: tl.constexpr,
    kernel: tl.constexpr,
    row_block: tl.constexpr,
    channel_block: tl.constexpr,
    input_block: tl.constexpr,
):
    row = tl.arange(0, row_block)
    sample, output_step = row // output_steps, row % output_steps
    first_step = output_step * stride - padding
    channel = tl.program_id(0) * channel_block + tl.arange(0, channel_block)
    place = tl.arange(0, input_block)
    num_blocks: tl.constexpr = num_inputs // input_block
    total = tl.zeros((row_block, channel_block), tl.float32)
    for number in range(kernel * num_blocks):
        tap, first = number // num_blocks, (number % num_blocks) * input_block
        step = first_step + tap
        seen = (row < rows) & (step >= 0) & (step < steps)
        source = hidden + ((sample * steps + step) * num_inputs + first)[:, None] + place[None, :]
        values = tl.load(source, mask=seen[:, None], other=0.0)
        # A channel's weights of one tap follow those of the tap before.
        factors = weight + channel[None, :] * (kernel * num_inputs) + place[:, None]
        total = tl.dot(values, tl.load(factors + number * input_block), total)
    total += tl.load(bias + channel).to(tl.float32)[None, :]
    target = output + row[:, None] * num_outputs + channel[None, :]
    tl.store(target, total, mask=(row < rows)[:, None])
