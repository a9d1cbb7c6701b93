"""A policy folder as LeRobot lays it out: `config.json`, weights or adapters, and processors."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from manyhands.config.decode import decode
from manyhands.config.folders import SHARDS, TRAINING_STATE
from manyhands.config.lerobot_train import without_wishes
from manyhands.config.policies import POLICY_TYPES, unknown_type
from manyhands.config.policy import PolicyConfig
from manyhands.config.schema import encode
from manyhands.config.size_limits import size_faults
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.adapters import (
    ADAPTER_CONFIG_FILE,
    ADAPTER_WEIGHTS_FILE,
    Settings,
    saved_tensors,
    write_settings,
)
from manyhands.lerobot_format.files import read_json, read_tensors, write_json, write_tensors
from manyhands.lerobot_format.legacy import lifted_processors, without_statistics
from manyhands.lerobot_format.processor import Processors, has_processors, write_processors
from manyhands.lerobot_format.processor import read_processors as read_processor_files

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"

_MAX_NAMES_SHOWN = 8


def read_config(folder: Path) -> PolicyConfig:
    """The policy configuration in a folder; its owner's wishes are not ours."""
    path = folder / CONFIG_FILE
    document = read_json(path)
    if "type" not in document:
        raise CheckpointError(f"{path} has no key type. Set it to the policy's type, such as act")
    kind = str(document.pop("type"))
    if kind not in POLICY_TYPES:
        raise CheckpointError(f"{path}: policy type {unknown_type(kind)}")
    for key in ("input_features", "output_features"):
        document[key] = document.get(key) or {}
    try:
        config: PolicyConfig = decode(POLICY_TYPES[kind], without_wishes(document))
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from None
    faults = size_faults(config)
    if faults:
        raise CheckpointError(f"{path}: {'; '.join(faults)}")
    return config


def write_config(folder: Path, config: PolicyConfig) -> None:
    """Write a configuration with LeRobot's keys in LeRobot's order."""
    write_json(folder / CONFIG_FILE, encode(config.self_contained(), stored=True), indent=4)


def read_processors(folder: Path) -> Processors:
    """The processors of a folder, also of one that has them among its weights."""
    if has_processors(folder):
        return read_processor_files(folder)
    return lifted_processors(read_config(folder), _read_tensors(folder), folder)


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights in a folder by LeRobot's names."""
    weights = without_statistics(_read_tensors(folder))
    return {name.replace("._orig_mod", ""): value for name, value in weights.items()}


def weights_file(folder: Path) -> Path:
    """The file of a folder that holds what was trained."""
    has_adapters = (folder / ADAPTER_CONFIG_FILE).is_file()
    return folder / (ADAPTER_WEIGHTS_FILE if has_adapters else WEIGHTS_FILE)


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    path = weights_file(folder)
    if not path.is_file() and (folder / "pytorch_model.bin").is_file():
        raise CheckpointError(
            f"{folder} contains pytorch_model.bin, a pickle; weights must be safetensors. Save "
            f"the policy again with LeRobot to get {WEIGHTS_FILE}"
        )
    if not path.is_file() and (folder.parent / TRAINING_STATE / SHARDS).is_dir():
        raise CheckpointError(
            f"{path} is missing: this checkpoint contains shards. Consolidate them: manyhands "
            f"convert --checkpoint={folder.parent}"
        )
    return read_tensors(path)


@torch.no_grad()
def load_weights(network: nn.Module, folder: Path) -> None:
    """Copy a folder's weights into a network that has the same names and shapes, and no others."""
    weights = read_fitting_weights(network, folder)
    for name, held in saved_tensors(network).items():
        held.copy_(weights[name])


def read_fitting_weights(network: nn.Module, folder: Path) -> dict[str, Tensor]:
    """The weights in a folder, of the names and shapes that a network has, and no others."""
    weights = read_weights(folder)
    faults = misfits(weights, saved_tensors(network))
    if faults:
        raise CheckpointError(
            f"{weights_file(folder)} does not fit {folder / CONFIG_FILE}:\n{faults}"
        )
    return weights


def misfits(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str:
    """How tensors differ in names and shapes from those that are wanted; empty where they fit."""
    shared = [name for name in wanted if name in found]
    faults = [
        _listed("missing", [name for name in wanted if name not in found]),
        _listed("unexpected", [name for name in found if name not in wanted]),
        _listed(
            "of another shape",
            [
                f"{name} ({_size(found[name])} in the file, {_size(wanted[name])} in the policy)"
                for name in shared
                if found[name].shape != wanted[name].shape
            ],
        ),
    ]
    return "\n".join(filter(None, faults))


def write_policy(
    folder: Path,
    config: PolicyConfig,
    processors: Processors,
    weights: Mapping[str, Tensor],
    adapters: Settings | None = None,
) -> None:
    """Write a whole policy folder that LeRobot loads offline, or one without weights.

    With settings of adapters, theirs are the weights.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if adapters is not None:
        write_settings(folder, adapters)
    if weights:
        write_tensors(weights_file(folder), weights, metadata={"format": "pt"})
    write_processors(folder, processors, torch.device(config.device or "cpu").type)
    write_config(folder, replace(config, use_peft=adapters is not None))


def _listed(kind: str, names: Iterable[str]) -> str:
    names = list(names)
    if not names:
        return ""
    shown = ", ".join(names[:_MAX_NAMES_SHOWN])
    more = len(names) - _MAX_NAMES_SHOWN
    return f"  {len(names)} {kind}: {shown}" + (f" and {more} more" if more > 0 else "")


def _size(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"
