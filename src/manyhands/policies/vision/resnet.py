"""Residual networks that turn images into feature maps, under torchvision's tensor names."""

from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands.errors import UserError, WeightsUnavailable

_DEPTHS = {
    "resnet18": (2, 2, 2, 2),
    "resnet34": (3, 4, 6, 3),
    "resnet50": (3, 4, 6, 3),
    "resnet101": (3, 4, 23, 3),
    "resnet152": (3, 8, 36, 3),
}
_WIDTHS = (64, 128, 256, 512)

_PUBLISHER = "https://download.pytorch.org/models"
PRETRAINED_FILES = {
    "ResNet18_Weights.IMAGENET1K_V1": "resnet18-f37072fd.pth",
    "ResNet34_Weights.IMAGENET1K_V1": "resnet34-b627a593.pth",
    "ResNet50_Weights.IMAGENET1K_V1": "resnet50-0676ba61.pth",
    "ResNet50_Weights.IMAGENET1K_V2": "resnet50-11ad3fa6.pth",
    "ResNet101_Weights.IMAGENET1K_V1": "resnet101-63fe2227.pth",
    "ResNet101_Weights.IMAGENET1K_V2": "resnet101-cd907fc2.pth",
    "ResNet152_Weights.IMAGENET1K_V1": "resnet152-394f9c45.pth",
    "ResNet152_Weights.IMAGENET1K_V2": "resnet152-f82ba261.pth",
}
"""ImageNet weights by LeRobot's names, and the files PyTorch publishes and caches them in."""


class FrozenBatchNorm(nn.Module):
    """Batch norm with fixed statistics and a fixed affine map: four buffers, nothing to train."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", torch.ones(num_channels))
        self.register_buffer("bias", torch.zeros(num_channels))
        self.register_buffer("running_mean", torch.zeros(num_channels))
        self.register_buffer("running_var", torch.ones(num_channels))

    def scale_and_shift(self) -> tuple[Tensor, Tensor]:
        """The affine map per channel that this norm amounts to."""
        scale = self.weight * torch.rsqrt(self.running_var + self.eps)
        return scale, self.bias - self.running_mean * scale


def convolve(image: Tensor, conv: nn.Conv2d, norm: FrozenBatchNorm) -> Tensor:
    """A convolution and its norm as one: the scale joins the weights, the shift is the bias."""
    scale, shift = norm.scale_and_shift()
    weight = conv.weight * scale.view(-1, 1, 1, 1)
    return F.conv2d(image, weight, shift, conv.stride, conv.padding, conv.dilation)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    expansion = 1

    def __init__(self, num_inputs: int, width: int, stride: int, dilation: int) -> None:
        super().__init__()
        self.conv1 = _conv(num_inputs, width, 3, stride, dilation)
        self.bn1 = FrozenBatchNorm(width)
        self.conv2 = _conv(width, width, 3)
        self.bn2 = FrozenBatchNorm(width)
        self.downsample = _shortcut(num_inputs, width, stride)

    def forward(self, image: Tensor) -> Tensor:
        """The block's feature map."""
        hidden = F.relu(convolve(image, self.conv1, self.bn1), inplace=True)
        hidden = convolve(hidden, self.conv2, self.bn2)
        return F.relu(hidden + _shortcut_of(image, self.downsample), inplace=True)


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 ones, around a shortcut."""

    expansion = 4

    def __init__(self, num_inputs: int, width: int, stride: int, dilation: int) -> None:
        super().__init__()
        self.conv1 = _conv(num_inputs, width, 1)
        self.bn1 = FrozenBatchNorm(width)
        self.conv2 = _conv(width, width, 3, stride, dilation)
        self.bn2 = FrozenBatchNorm(width)
        self.conv3 = _conv(width, width * self.expansion, 1)
        self.bn3 = FrozenBatchNorm(width * self.expansion)
        self.downsample = _shortcut(num_inputs, width * self.expansion, stride)

    def forward(self, image: Tensor) -> Tensor:
        """The block's feature map."""
        hidden = F.relu(convolve(image, self.conv1, self.bn1), inplace=True)
        hidden = F.relu(convolve(hidden, self.conv2, self.bn2), inplace=True)
        hidden = convolve(hidden, self.conv3, self.bn3)
        return F.relu(hidden + _shortcut_of(image, self.downsample), inplace=True)


class ResNet(nn.Module):
    """A residual network up to its last feature map, without pooling and classifier."""

    def __init__(self, name: str, dilate_last_stage: bool = False) -> None:
        super().__init__()
        self._block = BasicBlock if name in ("resnet18", "resnet34") else Bottleneck
        self.num_channels = _WIDTHS[-1] * self._block.expansion
        self.stride = 16 if dilate_last_stage else 32
        depths = _DEPTHS[name]

        self.conv1 = _conv(3, 64, 7, stride=2)
        self.bn1 = FrozenBatchNorm(64)
        self.layer1 = self._stage(0, depths, stride=1)
        self.layer2 = self._stage(1, depths, stride=2)
        self.layer3 = self._stage(2, depths, stride=2)
        self.layer4 = self._stage(3, depths, 1 if dilate_last_stage else 2, dilate_last_stage)

    def forward(self, images: Tensor) -> Tensor:
        """Feature maps (samples, channels, height / stride, width / stride), rounded up."""
        hidden = F.relu(convolve(images, self.conv1, self.bn1), inplace=True)
        hidden = F.max_pool2d(hidden, kernel_size=3, stride=2, padding=1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            hidden = stage(hidden)
        return hidden

    def _stage(
        self, index: int, depths: tuple[int, ...], stride: int, dilated: bool = False
    ) -> nn.Sequential:
        width = _WIDTHS[index]
        num_inputs = _WIDTHS[index - 1] * self._block.expansion if index else 64
        first = self._block(num_inputs, width, stride, dilation=1)
        rest = [
            self._block(width * self._block.expansion, width, 1, dilation=2 if dilated else 1)
            for _ in range(depths[index] - 1)
        ]
        return nn.Sequential(first, *rest)


def load_imagenet(backbone: ResNet, name: str, weights: str) -> None:
    """Start a backbone from ImageNet weights, out of PyTorch's cache or the network."""
    fitting = [known for known in PRETRAINED_FILES if known.lower().startswith(f"{name}_")]
    if weights not in fitting:
        raise UserError(
            f"--policy.pretrained_backbone_weights={weights} does not fit "
            f"--policy.vision_backbone={name}; use one of {', '.join(fitting)}, or null"
        )
    published = _fetch(PRETRAINED_FILES[weights])
    own = backbone.state_dict()
    backbone.load_state_dict({key: value for key, value in published.items() if key in own})


def _fetch(file_name: str) -> Mapping[str, Any]:
    url, cache = f"{_PUBLISHER}/{file_name}", Path(torch.hub.get_dir(), "checkpoints")
    try:
        state: Mapping[str, Any] = torch.hub.load_state_dict_from_url(
            url, map_location="cpu", progress=False, check_hash=True, weights_only=True
        )
    except OSError as error:
        raise WeightsUnavailable(
            f"the image encoder's weights cannot be fetched from {url} ({error}); offline, "
            f"put that file into {cache}, or start from random weights with "
            "--policy.pretrained_backbone_weights=null"
        ) from None
    except (RuntimeError, EOFError, UnpicklingError):
        raise UserError(f"{cache / file_name} is damaged; delete it to fetch it again") from None
    return state


def _conv(
    num_inputs: int, num_outputs: int, kernel: int, stride: int = 1, dilation: int = 1
) -> nn.Conv2d:
    padding = dilation * (kernel // 2)
    conv = nn.Conv2d(num_inputs, num_outputs, kernel, stride, padding, dilation, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv


def _shortcut(num_inputs: int, num_outputs: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and num_inputs == num_outputs:
        return None
    return nn.Sequential(_conv(num_inputs, num_outputs, 1, stride), FrozenBatchNorm(num_outputs))


def _shortcut_of(image: Tensor, downsample: nn.Sequential | None) -> Tensor:
    if downsample is None:
        return image
    conv, norm = downsample
    assert isinstance(conv, nn.Conv2d) and isinstance(norm, FrozenBatchNorm)
    return convolve(image, conv, norm)
