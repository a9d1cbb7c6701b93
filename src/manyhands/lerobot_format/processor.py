"""LeRobot's processor files: how raw values become a network's inputs, and its outputs raw values.

A folder holds two pipelines, `policy_preprocessor.json` and `policy_postprocessor.json`, each a
list of named steps; the (un)normalizer step keeps its statistics in a safetensors file beside them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhands.config.decode import decode, nearest
from manyhands.config.features import FeatureType, NormalizationMode, PolicyFeature
from manyhands.config.schema import encode
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.files import read_json, read_tensors, write_json, write_tensors
from manyhands.types import Stats

PREPROCESSOR = "policy_preprocessor"
POSTPROCESSOR = "policy_postprocessor"

_RENAME = "rename_observations_processor"
_TO_BATCH = "to_batch_processor"
_DEVICE = "device_processor"
_NORMALIZER = "normalizer_processor"
_UNNORMALIZER = "unnormalizer_processor"

Step = dict[str, Any]


@dataclass(frozen=True)
class Scaling:
    """One (un)normalizer step: which features it touches, how, and with which statistics."""

    features: dict[str, PolicyFeature]
    norm_map: dict[str, NormalizationMode]
    stats: Stats
    eps: float = 1e-8
    observation_keys: list[str] | None = None
    """Observations it is limited to; None means all."""


@dataclass(frozen=True)
class Processors:
    """Everything around a network that the processor files record."""

    inputs: Scaling
    outputs: Scaling
    rename_map: dict[str, str] = field(default_factory=dict)
    """Observation keys as they arrive, and as the policy calls them."""


def read_processors(folder: Path) -> Processors:
    """The processors saved in a policy folder."""
    before = _read_steps(folder, PREPROCESSOR, (_RENAME, _TO_BATCH, _DEVICE, _NORMALIZER))
    after = _read_steps(folder, POSTPROCESSOR, (_UNNORMALIZER, _DEVICE))
    where = f"{folder / PREPROCESSOR}.json"
    renaming = _settings(before.get(_RENAME, {}), {"rename_map": dict[str, str]}, where)
    return Processors(
        inputs=_read_scaling(folder, before, _NORMALIZER),
        outputs=_read_scaling(folder, after, _UNNORMALIZER),
        rename_map=renaming.get("rename_map", {}),
    )


def write_processors(folder: Path, processors: Processors, device: str) -> None:
    """Write both pipelines for a policy that runs on `device`, given without an index."""
    before = [
        _step(_RENAME, {"rename_map": processors.rename_map}),
        _step(_TO_BATCH, {}),
        _step(_DEVICE, {"device": device, "float_dtype": None}),
        _step(_NORMALIZER, _scaling_settings(processors.inputs)),
    ]
    after = [
        _step(_UNNORMALIZER, _scaling_settings(processors.outputs)),
        _step(_DEVICE, {"device": "cpu", "float_dtype": None}),
    ]
    _write_steps(folder, PREPROCESSOR, before, _shaped_for_images(processors.inputs))
    _write_steps(folder, POSTPROCESSOR, after, processors.outputs.stats)


def _step(registry_name: str, settings: Step) -> Step:
    return {"registry_name": registry_name, "config": settings}


def _scaling_settings(scaling: Scaling) -> Step:
    settings = {
        "eps": scaling.eps,
        "features": encode(scaling.features),
        "norm_map": encode(scaling.norm_map),
    }
    if scaling.observation_keys is not None:
        settings["normalize_observation_keys"] = sorted(scaling.observation_keys)
    return settings


def _shaped_for_images(scaling: Scaling) -> Stats:
    """Statistics as LeRobot's normalizer holds them: those of images stand on the channel axis."""
    stats = dict(scaling.stats)
    for name, feature in scaling.features.items():
        if feature.type is FeatureType.VISUAL and name in stats:
            stats[name] = {key: _on_channel_axis(value) for key, value in stats[name].items()}
    return stats


def _on_channel_axis(value: np.ndarray) -> np.ndarray:
    return value.reshape(-1, 1, 1) if value.ndim == 1 else value


def _write_steps(folder: Path, name: str, steps: list[Step], stats: Stats) -> None:
    tensors = {
        f"{feature}.{key}": torch.tensor(np.asarray(value, dtype=np.float32))
        for feature, values in stats.items()
        for key, value in values.items()
    }
    for index, step in enumerate(steps):
        if tensors and step["registry_name"] in (_NORMALIZER, _UNNORMALIZER):
            step["state_file"] = f"{name}_step_{index}_{step['registry_name']}.safetensors"
            write_tensors(folder / step["state_file"], tensors)
    write_json(folder / f"{name}.json", {"name": name, "steps": steps}, indent=2)


def _read_steps(folder: Path, name: str, known: tuple[str, ...]) -> dict[str, Step]:
    path = folder / f"{name}.json"
    if not path.is_file():
        raise CheckpointError(
            f"{path} is missing; a folder from before LeRobot had processors "
            "must be migrated with LeRobot's own script"
        )
    steps = read_json(path).get("steps")
    if not isinstance(steps, list) or not all(_is_step(step) for step in steps):
        raise CheckpointError(f"{path}: steps must be a list of objects with a config each")
    by_name = {str(step.get("registry_name", step.get("class"))): step for step in steps}
    for registry_name in by_name.keys() - set(known):
        hint = nearest(registry_name, known)
        raise CheckpointError(f"{path}: unknown processor step {registry_name}{hint}")
    _refuse_casts(by_name.get(_DEVICE, {}), path)
    return by_name


def _is_step(step: Any) -> bool:
    return (
        isinstance(step, dict)
        and isinstance(step.get("config", {}), dict)
        and isinstance(step.get("state_file", ""), str)
    )


def _refuse_casts(step: Step, path: Path) -> None:
    dtype = step.get("config", {}).get("float_dtype")
    if dtype not in (None, "float32", "float"):
        raise CheckpointError(
            f"{path}: {_DEVICE} casts inputs to {dtype}; only float32 is supported"
        )


def _read_scaling(folder: Path, steps: dict[str, Step], registry_name: str) -> Scaling:
    step = steps.get(registry_name)
    if step is None:
        raise CheckpointError(f"{folder}: its processors have no {registry_name} step")
    hints = {
        "eps": float,
        "features": dict[str, PolicyFeature],
        "norm_map": dict[str, NormalizationMode],
        "normalize_observation_keys": list[str] | None,
    }
    settings = _settings(step, hints, f"{folder}: {registry_name}")
    return Scaling(
        features=settings.get("features", {}),
        norm_map=settings.get("norm_map", {}),
        stats=_read_stats(folder, step.get("state_file")),
        eps=settings.get("eps", 1e-8),
        observation_keys=settings.get("normalize_observation_keys"),
    )


def _settings(step: Step, hints: Mapping[str, Any], where: str) -> dict[str, Any]:
    settings = {}
    for key, raw in step.get("config", {}).items():
        if key not in hints:
            raise CheckpointError(f"{where}: unknown key {key}{nearest(key, hints)}")
        try:
            settings[key] = decode(hints[key], raw, key)
        except ValueError as error:
            raise CheckpointError(f"{where}: {error}") from None
    return settings


def _read_stats(folder: Path, state_file: str | None) -> Stats:
    if state_file is None:
        return {}
    if Path(state_file).name != state_file:
        raise CheckpointError(f"{folder}: state_file {state_file} must lie in the folder itself")
    stats: Stats = {}
    for name, tensor in read_tensors(folder / state_file).items():
        feature, _, key = name.rpartition(".")
        stats.setdefault(feature, {})[key] = _as_array(tensor)
    return stats


def _as_array(tensor: Tensor) -> np.ndarray:
    # The copy frees the statistics from the file, which may be replaced while they live.
    return tensor.to(torch.float32, copy=True).numpy()
