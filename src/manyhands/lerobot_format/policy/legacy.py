"""Policies from before LeRobot had processors: their weights contain the statistics.

```
normalize_inputs.buffer_<feature>.<statistic>
normalize_targets.buffer_<feature>.<statistic>
unnormalize_outputs.buffer_<feature>.<statistic>
```

A feature is written with `_` for every `.`, so only the config determines which one is meant. Two
features with the same written name had one common buffer in training, and have one here.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from manyhands.config.policies.base import PolicyConfig
from manyhands.config.policies.features import NormalizationMode, PolicyFeature
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.policy.processors import NormalizerStep, Processors
from manyhands.types import Stats

INPUTS, TARGETS, OUTPUTS = "normalize_inputs.", "normalize_targets.", "unnormalize_outputs."

IDENTITY = NormalizationMode.IDENTITY

Modes = dict[str, NormalizationMode]
Buffers = dict[str, dict[str, Tensor]]  # Statistics by buffer and name


def without_statistics(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights without statistics."""
    places = (INPUTS, TARGETS, OUTPUTS)
    return {name: value for name, value in weights.items() if not name.startswith(places)}


def lifted_processors(
    config: PolicyConfig, weights: Mapping[str, Tensor], folder: Path
) -> Processors:
    """Build processors from a policy's config and the statistics in its weights."""
    inputs, targets, outputs = (_buffers(weights, place) for place in (INPUTS, TARGETS, OUTPUTS))
    if not (inputs or targets or outputs):
        raise CheckpointError(
            f"{folder} has neither policy_preprocessor.json nor, as in older policies, statistics "
            "among its weights; copy or download the folder again"
        )
    modes: Modes = getattr(config, "normalization_mapping", {})
    actions = config.output_features
    try:
        seen = _extracted(config.input_features, modes, inputs)
        before = seen | _extracted(actions, modes, targets or outputs)
        after = seen | _extracted(actions, modes, outputs or targets)
    except ValueError as error:
        raise CheckpointError(f"{folder}: {error}. Download or train it again") from None
    return Processors(
        inputs=NormalizerStep(config.input_features | actions, modes, before),
        outputs=NormalizerStep(actions, modes, after),
    )


def _buffers(weights: Mapping[str, Tensor], place: str) -> Buffers:
    buffers: Buffers = {}
    for name, value in weights.items():
        if name.startswith(place):
            buffer, _, statistic = name.removeprefix(place).rpartition(".")
            buffers.setdefault(buffer, {})[statistic] = value
    return buffers


def _extracted(features: Mapping[str, PolicyFeature], modes: Modes, buffers: Buffers) -> Stats:
    """Extract the statistics of every normalized feature; raises ValueError if one is missing."""
    buffer_of = {name: f"buffer_{name.replace('.', '_')}" for name in features}
    strangers = sorted(buffers.keys() - set(buffer_of.values()))
    if strangers:
        raise ValueError(f"statistics {', '.join(strangers)} belong to no feature in config.json")
    return {
        name: _values(name, buffers.get(buffer_of[name], {}))
        for name, feature in features.items()
        if modes.get(feature.type.value, IDENTITY) is not IDENTITY
    }


def _values(name: str, buffer: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    if not buffer:
        raise ValueError(f"statistics of {name} are missing, but config.json normalizes it")
    for statistic, value in buffer.items():
        if not torch.isfinite(value).all():
            raise ValueError(f"{statistic} of {name} is not finite, as if it was never set")
    # The copy is independent of the file, which may be replaced meanwhile.
    return {key: value.to(torch.float32, copy=True).numpy() for key, value in buffer.items()}
