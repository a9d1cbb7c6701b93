"""A policy folder in LeRobot's layout: `config.json`, weights or adapters, and processors."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyhands.config.files.lerobot_train_config import without_publishing
from manyhands.config.policies.base import NOT_LEROBOTS, PolicyConfig
from manyhands.config.policies.registry import POLICY_TYPES, unknown_type
from manyhands.config.policies.size_limits import size_faults
from manyhands.config.runs.run_dir import SHARDS, TRAINING_STATE
from manyhands.config.schema.decoding import encode
from manyhands.config.schema.json_values import decode
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.files import read_json, read_tensors, write_json, write_tensors
from manyhands.lerobot_format.policy.legacy import lifted_processors, without_statistics
from manyhands.lerobot_format.policy.processors import Processors, has_processors, write_processors
from manyhands.lerobot_format.policy.processors import read_processors as read_processor_files

# `adapter_config.json` names the adapted modules and the base policy,
# `adapter_model.safetensors` contains the trained weights; the folder contains nothing else of the
# policy except its config.
ADAPTER_CONFIG_FILE = "adapter_config.json"
ADAPTER_WEIGHTS_FILE = "adapter_model.safetensors"
NAME = "default"  # What the adapters of a network are called there; files do not say it
BASE, REVISION = "base_model_name_or_path", "revision"  # Keys of the policy of the adapters

_PREFIX = "base_model.model."
_ADAPTER = re.compile(rf"(.*\.lora_\w+)\.{NAME}(\..+)?")
_WHOLE_MODULE = re.compile(rf"(.*)\.modules_to_save\.{NAME}(\..+)")

Settings = dict[str, Any]  # What `adapter_config.json` says


def read_settings(folder: Path) -> Settings | None:
    """Read the adapter config of a folder; None if it has no adapters."""
    path = folder / ADAPTER_CONFIG_FILE
    if not path.is_file():
        return None
    settings = read_json(path)
    if str(settings.get("peft_type")) != "LORA":
        raise CheckpointError(
            f"{path}: adapters of type {settings.get('peft_type')} are not supported, only LORA. "
            "Merge them with peft and use the merged policy"
        )
    return settings


def write_settings(folder: Path, settings: Settings) -> None:
    """Write the adapter config of a folder, as peft does for inference."""
    write_json(folder / ADAPTER_CONFIG_FILE, settings | {"inference_mode": True}, indent=2)


def file_name(name: str) -> str | None:
    """The name of a tensor in adapter files; None if it is not saved with the adapters."""
    found = _ADAPTER.fullmatch(name) or _WHOLE_MODULE.fullmatch(name)
    return None if found is None else _PREFIX + found[1] + (found[2] or "")


def saved_tensors(network: nn.Module) -> dict[str, Tensor]:
    """The tensors to save, by their names in files: the adapters, or all without adapters."""
    state: dict[str, Tensor] = network.state_dict()
    named = ((file_name(name), value) for name, value in state.items())
    return {name: value for name, value in named if name is not None} or state


CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"

_MAX_NAMES_SHOWN = 8


def read_config(folder: Path) -> PolicyConfig:
    """Read the policy config of a folder, without its owner's publishing settings."""
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
        config: PolicyConfig = decode(POLICY_TYPES[kind], without_publishing(document))
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from None
    faults = size_faults(config)
    if faults:
        raise CheckpointError(f"{path}: {'; '.join(faults)}")
    return config


def write_config(folder: Path, config: PolicyConfig) -> None:
    """Write a config with LeRobot's keys in LeRobot's order."""
    document = encode(config.without_downloads(), without=NOT_LEROBOTS)
    write_json(folder / CONFIG_FILE, document, indent=4)


def read_processors(folder: Path) -> Processors:
    """Read the processors of a folder, also if its weights contain them."""
    if has_processors(folder):
        return read_processor_files(folder)
    return lifted_processors(read_config(folder), _read_tensors(folder), folder)


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Read the weights of a folder by LeRobot's names."""
    weights = without_statistics(_read_tensors(folder))
    return {name.replace("._orig_mod", ""): value for name, value in weights.items()}


def weights_file(folder: Path) -> Path:
    """The weights file of a folder: of the policy, or of its adapters."""
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
    """Load a folder's weights into a network; names and shapes must match exactly."""
    weights = read_matching_weights(network, folder)
    for name, held in saved_tensors(network).items():
        held.copy_(weights[name])


def read_matching_weights(network: nn.Module, folder: Path) -> dict[str, Tensor]:
    """Read a folder's weights; names and shapes must match a network exactly."""
    weights = read_weights(folder)
    faults = mismatches(weights, saved_tensors(network))
    if faults:
        config = folder / CONFIG_FILE
        fitted = config if config.exists() else "the model of this run"
        raise CheckpointError(f"{weights_file(folder)} does not fit {fitted}:\n{faults}")
    return weights


def mismatches(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str:
    """Describe how tensors differ in names and shapes; empty if they match."""
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


@dataclass(frozen=True)
class PolicyFiles:
    """The contents of a policy folder."""

    config: PolicyConfig
    processors: Processors
    weights: Mapping[str, Tensor]  # Or of the adapters; empty if stored elsewhere
    adapters: Settings | None = None

    def write(self, folder: Path) -> None:
        """Write a folder that LeRobot loads offline."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.adapters is not None:
            write_settings(folder, self.adapters)
        if self.weights:
            write_tensors(weights_file(folder), self.weights, metadata={"format": "pt"})
        device = torch.device(self.config.device or "cpu").type
        write_processors(folder, self.processors, device)
        write_config(folder, replace(self.config, use_peft=self.adapters is not None))

    def without_weights(self) -> "PolicyFiles":
        """The same folder without its weights."""
        return replace(self, weights={})


def _listed(kind: str, names: Iterable[str]) -> str:
    names = list(names)
    if not names:
        return ""
    shown = ", ".join(names[:_MAX_NAMES_SHOWN])
    more = len(names) - _MAX_NAMES_SHOWN
    return f"  {len(names)} {kind}: {shown}" + (f" and {more} more" if more > 0 else "")


def _size(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"
