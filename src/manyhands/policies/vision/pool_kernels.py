"""Triton kernels of 3x3 max pooling with stride 2, forward and backward.

A window belongs to a cell of 2x2 pixels and reaches one pixel beyond it, above and to the left.
A thread looks at the four windows of a cell once for its four pixels; kernels that go by pixels do
so for each of them. Values are held with their channels last.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@torch.library.custom_op("manyhands::pool", mutates_args=())
def pool(images: Tensor) -> tuple[Tensor, Tensor]:
    """The largest values of windows, and their places in them, counted by rows."""
    images = images.contiguous(memory_format=torch.channels_last)
    values, places = _windows_of(images)
    _run(_pool, (images, values, places), images.shape)
    return values, places


@torch.library.custom_op("manyhands::spread", mutates_args=())
def spread(gradient: Tensor, places: Tensor, height: int, width: int) -> Tensor:
    """The gradient of images from that of their windows."""
    # A compiler may hand over either input in strides of its own choice.
    gradient = gradient.contiguous(memory_format=torch.channels_last)
    places = places.contiguous(memory_format=torch.channels_last)
    whole = _images_of(gradient, places, height, width)
    _run(_spread, (gradient, places, whole), whole.shape)
    return whole


@pool.register_fake
def _windows_of(images: Tensor) -> tuple[Tensor, Tensor]:
    number, channels, height, width = images.shape
    windows = images.new_empty(number, -(-height // 2), -(-width // 2), channels)
    places = torch.empty_like(windows, dtype=torch.uint8)
    return windows.permute(0, 3, 1, 2), places.permute(0, 3, 1, 2)


@spread.register_fake
def _images_of(gradient: Tensor, _: Tensor, height: int, width: int) -> Tensor:
    number, channels = gradient.shape[:2]
    return gradient.new_empty(number, height, width, channels).permute(0, 3, 1, 2)


def _keep(ctx, inputs, output):
    _, places = output
    ctx.save_for_backward(places)
    ctx.size = inputs[0].shape[2:]


def _back(ctx, gradient, _):
    (places,) = ctx.saved_tensors
    return spread(gradient, places, *ctx.size)


pool.register_autograd(_back, setup_context=_keep)


def _run(kernel, tensors, size):
    number, channels, height, width = size
    # At most as many as pixels, so 32 bits count them all, the idle threads of the last block too.
    total = number * channels * -(-height // 2) * -(-width // 2)
    if total > 0:
        kernel[(triton.cdiv(total, BLOCK),)](*tensors, total, channels, height, width, BLOCK)


@triton.jit
def _pool(
    images,
    values,
    places,
    total,
    channels: tl.constexpr,
    height: tl.constexpr,
    width: tl.constexpr,
    block: tl.constexpr,
):
    number = tl.program_id(0) * block + tl.arange(0, block)
    inside = number < total
    image, row, column, channel = _cell_of(number, channels, height, width)
    best = tl.full((block,), float("-inf"), tl.float32)
    # Where all pixels are -inf the first one counts, which is not the padding around the image.
    place = tl.where(row > 0, 0, 3) + tl.where(column > 0, 0, 1)
    for offset in tl.static_range(9):
        y, x = 2 * row + offset // 3 - 1, 2 * column + offset % 3 - 1
        seen = inside & (y >= 0) & (y < height) & (x >= 0) & (x < width)
        source = images + ((image * height + y) * width + x) * channels + channel
        value = tl.load(source, mask=seen, other=float("-inf")).to(tl.float32)
        # NaN is propagated, not lost.
        better = (value > best) | (value != value)
        best = tl.where(better, value, best)
        place = tl.where(better, offset, place)
    tl.store(values + number, best, mask=inside)
    tl.store(places + number, place.to(tl.uint8), mask=inside)


@triton.jit
def _spread(
    gradient,
    places,
    whole,
    total,
    channels: tl.constexpr,
    height: tl.constexpr,
    width: tl.constexpr,
    block: tl.constexpr,
):
    number = tl.program_id(0) * block + tl.arange(0, block)
    inside = number < total
    image, row, column, channel = _cell_of(number, channels, height, width)
    y, x = 2 * row, 2 * column
    line = ((width + 1) // 2) * channels
    has_right, has_lower = inside & (x + 2 < width), inside & (y + 2 < height)
    own_place, own = _window(gradient, places, number, inside)
    right_place, right = _window(gradient, places, number + channels, has_right)
    lower_place, lower = _window(gradient, places, number + line, has_lower)
    far_place, far = _window(gradient, places, number + line + channels, has_right & has_lower)
    middle = tl.where(own_place == 4, own, 0.0)
    beside = tl.where(own_place == 5, own, 0.0) + tl.where(right_place == 3, right, 0.0)
    below = tl.where(own_place == 7, own, 0.0) + tl.where(lower_place == 1, lower, 0.0)
    corner = tl.where(own_place == 8, own, 0.0) + tl.where(right_place == 6, right, 0.0)
    corner += tl.where(lower_place == 2, lower, 0.0) + tl.where(far_place == 0, far, 0.0)
    target = whole + ((image * height + y) * width + x) * channels + channel
    in_width, in_height = inside & (x + 1 < width), inside & (y + 1 < height)
    tl.store(target, middle, mask=inside)
    tl.store(target + channels, beside, mask=in_width)
    tl.store(target + width * channels, below, mask=in_height)
    tl.store(target + (width + 1) * channels, corner, mask=in_width & in_height)


@triton.jit
def _cell_of(number, channels: tl.constexpr, height: tl.constexpr, width: tl.constexpr):
    rows, columns = (height + 1) // 2, (width + 1) // 2
    pixel = number // channels
    line = pixel // columns
    return line // rows, line % rows, pixel % columns, number % channels


@triton.jit
def _window(gradient, places, number, exists):
    place = tl.load(places + number, mask=exists, other=9).to(tl.int32)
    return place, tl.load(gradient + number, mask=exists, other=0).to(tl.float32)
