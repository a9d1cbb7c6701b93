"""The first convolution of a residual network: 7x7, three channels, stride 2.

GPUs pad three channels to eight and compute with the padding. Seen as cells of 2x2 pixels, the same
sums are a convolution of 4x4 cells of twelve channels, which become sixteen.
"""

import torch.nn.functional as F
from torch import Tensor, nn

KERNEL, STRIDE, PADDING = 7, 2, 3


class Stem(nn.Conv2d):
    """The convolution, under the name and shape of its published weights."""

    def __init__(self, num_outputs: int) -> None:
        super().__init__(3, num_outputs, KERNEL, STRIDE, PADDING, bias=False)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if input.is_cuda:
            return F.conv2d(image_cells(input), weight_cells(weight), bias)
        output: Tensor = super()._conv_forward(input, weight, bias)
        return output


def image_cells(images: Tensor) -> Tensor:
    """Images (images, 3, height, width) with padding, as cells of 2x2 pixels."""
    height, width = images.shape[-2:]
    # One row more above than the kernel reaches, so that it begins where a cell does.
    before, after = PADDING + 1, PADDING - 1
    return _cells(F.pad(images, (before, after + width % 2, before, after + height % 2, 0, 1)))


def weight_cells(weight: Tensor) -> Tensor:
    """The weights (outputs, 3, 7, 7) by cells; what the kernel did not reach counts nothing."""
    return _cells(F.pad(weight, (1, 0, 1, 0, 0, 1)))


def _cells(pixels: Tensor) -> Tensor:
    number, channels, height, width = pixels.shape
    pairs = (height // 2, 2, width // 2, 2)
    cells = pixels.permute(0, 2, 3, 1).reshape(number, *pairs, channels).transpose(2, 3)
    return cells.flatten(3).permute(0, 3, 1, 2)
