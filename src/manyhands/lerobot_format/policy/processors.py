"""LeRobot's processor files: conversions of raw values to network inputs, and of outputs back.

A folder contains two pipelines, `policy_preprocessor.json` and `policy_postprocessor.json`, each a
list of named steps; the (un)normalizer step stores its statistics in a safetensors file beside it.
The first policies with processors use other names for the files and for one of the steps.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from manyhands.config.policies.features import FeatureType, NormalizationMode, PolicyFeature
from manyhands.config.schema.decoding import encode
from manyhands.config.schema.json_values import closest_match, decode
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
_NEW_LINE = "smolvla_new_line_processor"
_TOKENIZER = "tokenizer_processor"

_OLD_FILES = {PREPROCESSOR: "robot_preprocessor", POSTPROCESSOR: "robot_postprocessor"}
_OLD_STEPS = {"rename_processor": _RENAME}
_CLASSES = {
    "lerobot.processor.rename_processor.RenameObservationsProcessorStep": _RENAME,
    "lerobot.processor.batch_processor.AddBatchDimensionProcessorStep": _TO_BATCH,
    "lerobot.processor.device_processor.DeviceProcessorStep": _DEVICE,
    "lerobot.processor.normalize_processor.NormalizerProcessorStep": _NORMALIZER,
    "lerobot.processor.normalize_processor.UnnormalizerProcessorStep": _UNNORMALIZER,
}  # Steps by their class, which stands in a file where a step has no name

Step = dict[str, Any]


@dataclass(frozen=True)
class NormalizerStep:
    """One (un)normalizer step: its features, modes and statistics."""

    features: dict[str, PolicyFeature]
    norm_map: dict[str, NormalizationMode]
    stats: Stats
    eps: float = 1e-8
    observation_keys: list[str] | None = None  # Observations to normalize; None: all


@dataclass(frozen=True)
class TokenizerStep:
    """One tokenizer step: how tasks become tokens."""

    tokenizer_name: str  # A folder, or a name on the Hub
    max_length: int = 512
    task_key: str = "task"
    padding_side: str = "right"
    padding: str = "max_length"
    truncation: bool = True
    ends_lines: bool = True  # Whether every task is made to end with a new line
    folder: Path | None = None  # Where the tokenizer lies, if a policy's folder has it


@dataclass(frozen=True)
class Processors:
    """The contents of the processor files."""

    inputs: NormalizerStep
    outputs: NormalizerStep
    rename_map: dict[str, str] = field(default_factory=dict)  # Arriving keys to the policy's
    tokenizing: TokenizerStep | None = None  # How tasks are read, by policies that do


def has_processors(folder: Path) -> bool:
    """Whether a policy folder has processor files, under any name."""
    return any(_file_of(folder, name).is_file() for name in (PREPROCESSOR, POSTPROCESSOR))


def read_processors(folder: Path) -> Processors:
    """Read the processors of a policy folder."""
    first, last = _file_of(folder, PREPROCESSOR), _file_of(folder, POSTPROCESSOR)
    known = (_RENAME, _TO_BATCH, _NEW_LINE, _TOKENIZER, _DEVICE, _NORMALIZER)
    before = _read_steps(first, known)
    after = _read_steps(last, (_UNNORMALIZER, _DEVICE))
    renaming = _settings(before.get(_RENAME, {}), {"rename_map": dict[str, str]}, first)
    return Processors(
        inputs=_read_scaling(first, before, _NORMALIZER),
        outputs=_read_scaling(last, after, _UNNORMALIZER),
        rename_map=renaming.get("rename_map", {}),
        tokenizing=_read_tokenizing(first, before),
    )


def write_processors(folder: Path, processors: Processors, device: str) -> None:
    """Write both pipelines for a policy that runs on `device`, given without an index."""
    before = [
        _step(_RENAME, {"rename_map": processors.rename_map}),
        _step(_TO_BATCH, {}),
        *_language_steps(processors.tokenizing),
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


def _language_steps(tokenizing: TokenizerStep | None) -> list[Step]:
    if tokenizing is None:
        return []
    keys = ("max_length", "task_key", "padding_side", "padding", "truncation", "tokenizer_name")
    step = _step(_TOKENIZER, {key: getattr(tokenizing, key) for key in keys})
    return [_step(_NEW_LINE, {}), step] if tokenizing.ends_lines else [step]


def _scaling_settings(scaling: NormalizerStep) -> Step:
    settings = {
        "eps": scaling.eps,
        "features": encode(scaling.features),
        "norm_map": encode(scaling.norm_map),
    }
    if scaling.observation_keys is not None:
        settings["normalize_observation_keys"] = sorted(scaling.observation_keys)
    return settings


def _shaped_for_images(scaling: NormalizerStep) -> Stats:
    """Statistics in the shape of LeRobot's normalizer: those of images on the channel axis."""
    stats = dict(scaling.stats)
    for name, feature in scaling.features.items():
        if feature.type is FeatureType.VISUAL and name in stats:
            stats[name] = {
                key: value.reshape(-1, 1, 1) if value.ndim == 1 else value
                for key, value in stats[name].items()
            }
    return stats


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


def _file_of(folder: Path, name: str) -> Path:
    path, old = folder / f"{name}.json", folder / f"{_OLD_FILES[name]}.json"
    return old if old.is_file() and not path.is_file() else path


def _read_steps(path: Path, known: tuple[str, ...]) -> dict[str, Step]:
    steps = read_json(path).get("steps")
    if not isinstance(steps, list) or not all(_is_step(step) for step in steps):
        raise CheckpointError(f"{path}: steps must be a list of objects, each with a config")
    by_name: dict[str, Step] = {}
    for step in steps:
        name = _name_of(step)
        if name not in known:
            raise CheckpointError(
                f"{path}: unknown processor step {name}{closest_match(name, known)}"
            )
        if name in by_name:
            raise CheckpointError(f"{path}: step {name} appears twice. Remove one")
        by_name[name] = step
    dtype = by_name.get(_DEVICE, {}).get("config", {}).get("float_dtype")
    if dtype not in (None, "float32", "float"):
        raise CheckpointError(
            f"{path}: {_DEVICE} casts inputs to {dtype}; only float32 is supported"
        )
    return by_name


def _is_step(step: Any) -> bool:
    return (
        isinstance(step, dict)
        and isinstance(step.get("config", {}), dict)
        and isinstance(step.get("state_file", ""), str)
    )


def _name_of(step: Step) -> str:
    name = str(step.get("registry_name", step.get("class")))
    return _OLD_STEPS.get(name, _CLASSES.get(name, name))


def _read_scaling(path: Path, steps: dict[str, Step], name: str) -> NormalizerStep:
    step = steps.get(name)
    if step is None:
        raise CheckpointError(f"{path}: step {name} is missing")
    hints = {
        "eps": float,
        "features": dict[str, PolicyFeature],
        "norm_map": dict[str, NormalizationMode],
        "normalize_observation_keys": list[str] | None,
    }
    settings = _settings(step, hints, path)
    for key in ("features", "norm_map"):
        if key not in settings:
            raise CheckpointError(f"{path}: step {name} has no {key}")
    return NormalizerStep(
        features=settings["features"],
        norm_map=settings["norm_map"],
        stats=_read_stats(path, step.get("state_file"), settings["features"]),
        eps=settings.get("eps", 1e-8),
        observation_keys=settings.get("normalize_observation_keys"),
    )


def _read_tokenizing(path: Path, steps: dict[str, Step]) -> TokenizerStep | None:
    step = steps.get(_TOKENIZER)
    if step is None:
        return None
    numbers = {"max_length": int, "truncation": bool}
    texts = dict.fromkeys(("task_key", "padding_side", "padding", "tokenizer_name"), str)
    settings = _settings(step, numbers | texts, path)
    if "tokenizer_name" not in settings:
        raise CheckpointError(f"{path}: step {_TOKENIZER} has no tokenizer_name")
    # From 0.6.2 on a policy's folder may contain the tokenizer, under a relative name.
    own = _settings({"config": step.get("artifacts") or {}}, {"tokenizer_name": str}, path)
    name = own.get("tokenizer_name")
    if name is not None and Path(name).name != name:
        raise CheckpointError(f"{path}: the tokenizer {name} must be inside the folder")
    folder = None if name is None else path.parent / name
    return TokenizerStep(**settings, ends_lines=_NEW_LINE in steps, folder=folder)


def _settings(step: Step, hints: Mapping[str, Any], path: Path) -> dict[str, Any]:
    settings = {}
    for key, raw in step.get("config", {}).items():
        if key not in hints:
            where = f"{path}: {_name_of(step)}"
            raise CheckpointError(f"{where}: unknown key {key}{closest_match(key, hints)}")
        try:
            settings[key] = decode(hints[key], raw, key)
        except ValueError as error:
            raise CheckpointError(f"{path}: {_name_of(step)}: {error}") from None
    return settings


def _read_stats(path: Path, state_file: str | None, features: Iterable[str]) -> Stats:
    if state_file is None:
        return {}
    if Path(state_file).name != state_file:
        raise CheckpointError(f"{path}: state_file {state_file} must be inside the folder")
    stats: Stats = {}
    for name, tensor in read_tensors(path.parent / state_file).items():
        feature, _, key = name.rpartition(".")
        # The copy is independent of the file, which may be replaced meanwhile.
        stats.setdefault(feature, {})[key] = tensor.to(torch.float32, copy=True).numpy()
    # LeRobot's migration of older policies wrote every _ of a name as a dot.
    migrated = {name: name.replace("_", ".") for name in features if name not in stats}
    return stats | {name: stats[old] for name, old in migrated.items() if old in stats}
