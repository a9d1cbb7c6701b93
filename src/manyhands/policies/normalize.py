"""Raw values to a common scale and back, by the statistics of a dataset.

Every mode is one affine map per feature, `(x - shift) * scale + bias`, prepared once in double
precision. The shift is taken first because a feature far from zero would lose its digits otherwise.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyhands.config.policies.features import FeatureType, NormalizationMode
from manyhands.errors import UserError
from manyhands.lerobot_format.policy.processors import NormalizerStep
from manyhands.types import Batch

STATISTICS: dict[NormalizationMode, tuple[str, ...]] = {
    NormalizationMode.IDENTITY: (),
    NormalizationMode.MEAN_STD: ("mean", "std"),
    NormalizationMode.MIN_MAX: ("min", "max"),
    NormalizationMode.QUANTILES: ("q01", "q99"),
    NormalizationMode.QUANTILE10: ("q10", "q90"),
}
"""Statistics each mode needs."""


class AffineMap(NamedTuple):
    """`(x - shift) * scale + bias`; the inverse multiplies by `span`, as LeRobot does."""

    shift: Tensor
    scale: Tensor
    bias: Tensor
    span: Tensor

    def forward(self, value: Tensor) -> Tensor:
        """Normalize."""
        return torch.addcmul(self.bias, value - self.shift, self.scale)

    def inverse(self, value: Tensor) -> Tensor:
        """Undo the normalization."""
        return torch.addcmul(self.shift, value - self.bias, self.span)

    def of_bytes(self) -> "AffineMap":
        """The map for images that count from 0 to 255 instead of 0 to 1."""
        return self._replace(shift=self.shift * 255, scale=self.scale / 255)

    def to(self, device: torch.device, dtype: torch.dtype) -> "AffineMap":
        """The map with its tensors moved and cast."""
        return AffineMap(*(tensor.to(device, dtype) for tensor in self))


class Normalizer:
    """Normalizes the features of a batch; images come as bytes or as floats from 0 to 1."""

    def __init__(self, scaling: NormalizerStep) -> None:
        self._scaling = scaling
        self.to(torch.device("cpu"))

    def to(self, device: torch.device, dtype: torch.dtype = torch.float32) -> "Normalizer":
        """Move the prepared maps to a device; what is normalized from then on has that type."""
        maps = affine_maps(self._scaling)
        self._dtype = dtype
        self._maps = {name: map_.to(device, dtype) for name, map_ in maps.items()}
        self._byte_maps = {name: map_.of_bytes().to(device, dtype) for name, map_ in maps.items()}
        return self

    def forward(self, batch: Batch) -> Batch:
        """The batch with every known feature as normalized floats; all else as it is."""
        known = {name: batch[name] for name in self._scaling.features if name in batch}
        return batch | {name: self._forward(name, value) for name, value in known.items()}

    def inverse(self, name: str, value: Tensor) -> Tensor:
        """A feature's raw values from its normalized ones."""
        value = value.to(self._dtype)
        return self._maps[name].inverse(value) if name in self._maps else value

    def _forward(self, name: str, value: Tensor) -> Tensor:
        is_image = self._scaling.features[name].type is FeatureType.VISUAL
        if not is_image or value.dtype != torch.uint8:
            value = value.to(self._dtype)
            return self._maps[name].forward(value) if name in self._maps else value
        # Subtracting a float tensor casts the bytes within the same kernel.
        is_mapped = name in self._byte_maps
        return self._byte_maps[name].forward(value) if is_mapped else value.to(self._dtype) / 255


def affine_maps(scaling: NormalizerStep) -> dict[str, AffineMap]:
    """The map of every feature that is to be scaled, in double precision."""
    # As in LeRobot, kinds that the map does not mention (`ENV` by default) and features without any
    # statistics stay raw.
    maps = {}
    for name, feature in scaling.features.items():
        mode = scaling.norm_map.get(feature.type.value, NormalizationMode.IDENTITY)
        keys = scaling.observation_keys
        is_chosen = keys is None or name in keys or feature.type is FeatureType.ACTION
        if mode is not NormalizationMode.IDENTITY and is_chosen and scaling.stats.get(name):
            maps[name] = _affine_map(*_statistics(scaling, name, mode), mode, scaling.eps)
    return maps


def _statistics(
    scaling: NormalizerStep, name: str, mode: NormalizationMode
) -> tuple[Tensor, Tensor]:
    stats, is_image = scaling.stats[name], scaling.features[name].type is FeatureType.VISUAL
    for statistic in STATISTICS[mode]:
        if statistic not in stats:
            raise UserError(
                f"{name} has no statistic {statistic}, which {mode.value} needs. Recompute "
                "the dataset's statistics, or choose another mode in --policy.normalization_mapping"
            )
    # In the precision of saved files: a policy normalizes alike before and after saving.
    kept = (np.asarray(stats[key], np.float32) for key in STATISTICS[mode])
    first, second = (torch.from_numpy(np.array(each, np.float64)) for each in kept)
    if is_image and first.ndim == 1:
        return first.view(-1, 1, 1), second.view(-1, 1, 1)
    return first, second


def _affine_map(first: Tensor, second: Tensor, mode: NormalizationMode, eps: float) -> AffineMap:
    if mode is NormalizationMode.MEAN_STD:
        return AffineMap(first, 1 / (second + eps), torch.zeros_like(first), second)
    width = second - first
    width = torch.where(width == 0, eps, width)
    return AffineMap(first, 2 / width, torch.full_like(first, -1.0), width / 2)
