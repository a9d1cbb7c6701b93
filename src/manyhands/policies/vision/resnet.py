"""Residual networks that turn images into feature maps.

Images and weights are held with their channels last, the layout that convolutions are fastest in.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands.policies.activation_checkpointing import checkpointed
from manyhands.policies.vision.norms import FrozenBatchNorm, NormMaker

# GPUs pad three channels to eight and compute with the padding. Seen as cells of 2x2 pixels, the
# same sums are a convolution of 4x4 cells of twelve channels, which become sixteen.
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


TORCHVISION = ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4")
"""Names of the stem's convolution and norm and of the four stages, as published."""
POSITIONAL = ("0", "1", "4", "5", "6", "7")
"""The same by their index in a sequence whose 2 and 3 are an activation and a pooling."""

_DEPTHS = {
    "resnet18": (2, 2, 2, 2),
    "resnet34": (3, 4, 6, 3),
    "resnet50": (3, 4, 6, 3),
    "resnet101": (3, 4, 23, 3),
    "resnet152": (3, 8, 36, 3),
}
_WIDTHS = (64, 128, 256, 512)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    expansion = 1

    def __init__(
        self, num_inputs: int, width: int, stride: int, dilation: int, norm: NormMaker
    ) -> None:
        super().__init__()
        self.conv1 = _conv(num_inputs, width, 3, stride, dilation)
        self.bn1 = norm(width)
        self.conv2 = _conv(width, width, 3)
        self.bn2 = norm(width)
        self.downsample = _shortcut(num_inputs, width, stride, norm)

    def forward(self, image: Tensor) -> Tensor:
        """The block's feature map."""
        hidden = F.relu(convolve(image, self.conv1, self.bn1), inplace=True)
        hidden = convolve(hidden, self.conv2, self.bn2)
        return F.relu(hidden + _shortcut_of(image, self.downsample), inplace=True)


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 ones, around a shortcut."""

    expansion = 4

    def __init__(
        self, num_inputs: int, width: int, stride: int, dilation: int, norm: NormMaker
    ) -> None:
        super().__init__()
        self.conv1 = _conv(num_inputs, width, 1)
        self.bn1 = norm(width)
        self.conv2 = _conv(width, width, 3, stride, dilation)
        self.bn2 = norm(width)
        self.conv3 = _conv(width, width * self.expansion, 1)
        self.bn3 = norm(width * self.expansion)
        self.downsample = _shortcut(num_inputs, width * self.expansion, stride, norm)

    def forward(self, image: Tensor) -> Tensor:
        """The block's feature map."""
        hidden = F.relu(convolve(image, self.conv1, self.bn1), inplace=True)
        hidden = F.relu(convolve(hidden, self.conv2, self.bn2), inplace=True)
        hidden = convolve(hidden, self.conv3, self.bn3)
        return F.relu(hidden + _shortcut_of(image, self.downsample), inplace=True)


class ResNet(nn.Module):
    """A residual network up to its last feature map, without pooling and classifier.

    `names` are those of its six submodules; with `recompute` its blocks store no activations.
    """

    def __init__(
        self,
        name: str,
        norm: NormMaker = FrozenBatchNorm,
        names: tuple[str, ...] = TORCHVISION,
        dilate_last_stage: bool = False,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        block = BasicBlock if name in ("resnet18", "resnet34") else Bottleneck
        self.names = names
        self.num_channels = _WIDTHS[-1] * block.expansion
        self.stride = 16 if dilate_last_stage else 32
        self._recompute = recompute

        num_inputs = _WIDTHS[0]
        parts: list[nn.Module] = [_prepared(Stem(num_inputs)), norm(num_inputs)]
        for width, depth in zip(_WIDTHS, _DEPTHS[name], strict=True):
            dilated = dilate_last_stage and width == _WIDTHS[-1]
            stride, dilation = 1 if dilated or width == _WIDTHS[0] else 2, 2 if dilated else 1
            first = block(num_inputs, width, stride, 1, norm)
            num_inputs = width * block.expansion
            rest = [block(num_inputs, width, 1, dilation, norm) for _ in range(depth - 1)]
            parts.append(nn.Sequential(first, *rest))
        for part_name, part in zip(names, parts, strict=True):
            self.add_module(part_name, part)

    def forward(self, images: Tensor) -> Tensor:
        """Feature maps (samples, channels, height / stride, width / stride), rounded up."""
        conv, norm, *stages = self.children()
        images = images.contiguous(memory_format=torch.channels_last)
        hidden = F.relu(convolve(images, conv, norm), inplace=True)
        hidden = max_pool(hidden)
        for block in (block for stage in stages for block in stage.children()):
            hidden = checkpointed(block, hidden) if self._recompute else block(hidden)
        return hidden


def max_pool(images: Tensor) -> Tensor:
    """3x3 max pooling with stride 2."""
    if torch.compiler.is_compiling() and can_pool(images):
        # Needs Triton, which comes with torch for GPUs only.
        from manyhands.policies.vision.pool_kernels import pool

        largest: Tensor = pool(images)[0]
        return largest
    return F.max_pool2d(images, kernel_size=3, stride=2, padding=1)


def can_pool(images: Tensor) -> bool:
    """Whether the Triton kernels apply: they index and compute in 32 bits."""
    return images.is_cuda and images.dtype != torch.float64 and images.numel() < 2**31


def convolve(image: Tensor, conv: nn.Module, norm: nn.Module) -> Tensor:
    """A convolution and its norm; a frozen norm joins the weights and becomes the bias."""
    assert isinstance(conv, nn.Conv2d)
    if isinstance(norm, FrozenBatchNorm):
        scale, shift = norm.scale_and_shift()
        weight = conv.weight * scale.view(-1, 1, 1, 1)
        output: Tensor = conv._conv_forward(image, weight, shift)
        return output
    normed: Tensor = norm(conv(image))
    return normed


def _conv(
    num_inputs: int, num_outputs: int, kernel: int, stride: int = 1, dilation: int = 1
) -> nn.Conv2d:
    padding = dilation * (kernel // 2)
    return _prepared(
        nn.Conv2d(num_inputs, num_outputs, kernel, stride, padding, dilation, bias=False)
    )


def _prepared(conv: nn.Conv2d) -> nn.Conv2d:
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    # A 1x1 kernel passes for either layout; gradients come in this one, and DDP compares strides.
    laid_out = torch.empty_like(conv.weight.data, memory_format=torch.channels_last)
    conv.weight.data = laid_out.copy_(conv.weight.data)
    return conv


def _shortcut(
    num_inputs: int, num_outputs: int, stride: int, norm: NormMaker
) -> nn.Sequential | None:
    if stride == 1 and num_inputs == num_outputs:
        return None
    return nn.Sequential(_conv(num_inputs, num_outputs, 1, stride), norm(num_outputs))


def _shortcut_of(image: Tensor, downsample: nn.Sequential | None) -> Tensor:
    return image if downsample is None else convolve(image, *downsample)
