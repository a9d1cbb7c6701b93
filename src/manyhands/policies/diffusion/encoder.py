"""Spatial softmax: encode images as the positions of learned features."""

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.policies.vision.norms import BatchNorm, group_norm
from manyhands.policies.vision.resnet import POSITIONAL, ResNet


class ImageEncoder(nn.Module):
    """A residual network, the points its features lie at, and a linear layer."""

    lerobot_class: ClassVar[str] = "DiffusionRgbEncoder"

    def __init__(self, config: DiffusionConfig, image_shape: tuple[int, ...]) -> None:
        super().__init__()
        num_keypoints = config.spatial_softmax_num_keypoints
        self.num_features = 2 * num_keypoints
        self._resized = config.resize_shape
        self._cropped = seen_size(config, image_shape)
        self.backbone = ResNet(
            config.vision_backbone,
            group_norm if config.use_group_norm else BatchNorm,
            POSITIONAL,
            recompute=config.gradient_checkpointing,
        )
        height, width = (math.ceil(size / self.backbone.stride) for size in self._cropped)
        self.pool = SpatialSoftmax(self.backbone.num_channels, num_keypoints, height, width)
        self.out = nn.Linear(self.num_features, self.num_features)

    def prepare(self, images: Tensor, corners: Tensor | None) -> Tensor:
        """Images (images, 3, height, width) as the backbone sees them: resized and cropped."""
        # `corners` (images, 2) are the top left ones of the crops; without them it is the center.
        if self._resized is not None:
            images = F.interpolate(images, self._resized, mode="bilinear", antialias=True)
        if images.shape[2:] == self._cropped:
            return images
        if corners is None:
            return center_crop(images, self._cropped)
        return crop(images, self._cropped, corners)

    def forward(self, images: Tensor) -> Tensor:
        """Features (images, features) of prepared images."""
        points = self.pool(self.backbone(images))
        return F.relu(self.out(points.flatten(1)))


class SpatialSoftmax(nn.Module):
    """The mean position of each feature, in coordinates from -1 to 1."""

    pos_grid: Tensor

    def __init__(self, num_channels: int, num_keypoints: int, height: int, width: int) -> None:
        super().__init__()
        self.nets = nn.Conv2d(num_channels, num_keypoints, kernel_size=1)
        rows, columns = (
            torch.linspace(-1, 1, size, dtype=torch.float64) for size in (height, width)
        )
        grid = torch.cartesian_prod(rows, columns).flip(1).float()
        self.register_buffer("pos_grid", grid)

    def forward(self, maps: Tensor) -> Tensor:
        """Points (images, keypoints, 2), each an x and a y."""
        attention = self.nets(maps).flatten(2).softmax(dim=-1)
        points: Tensor = attention @ self.pos_grid
        return points


def seen_size(config: DiffusionConfig, image_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Height and width of an image after resizing and cropping."""
    return config.crop_shape or config.resize_shape or image_shape[1:]


def crop_margin(config: DiffusionConfig, image_shape: tuple[int, ...]) -> tuple[int, int]:
    """How far down and to the right a crop can be moved."""
    height, width = config.resize_shape or image_shape[1:]
    seen_height, seen_width = seen_size(config, image_shape)
    return height - seen_height, width - seen_width


def center_crop(images: Tensor, size: tuple[int, ...]) -> Tensor:
    """The middle of images (images, 3, height, width), as a view."""
    height, width = size
    # Halves go to the even neighbor, which is LeRobot's rounding too.
    top, left = (
        round((whole - part) / 2) for whole, part in zip(images.shape[2:], size, strict=True)
    )
    return images[:, :, top : top + height, left : left + width]


def crop(images: Tensor, size: tuple[int, ...], corners: Tensor) -> Tensor:
    """A window of each of the images (images, 3, height, width), by its top left corner."""
    # The corners are read on the device, and the result has its channels last in memory.
    height, width = (torch.arange(length, device=images.device) for length in size)
    rows = corners[:, 0, None, None] + height[:, None]
    columns = corners[:, 1, None, None] + width
    numbers = torch.arange(len(images), device=images.device)[:, None, None]
    return images.permute(0, 2, 3, 1)[numbers, rows, columns].permute(0, 3, 1, 2)
