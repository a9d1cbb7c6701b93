"""Adapters in a policy folder as peft lays them out, and the names that it has for their tensors.

`adapter_config.json` tells what is adapted and which policy lies below, `adapter_model.safetensors`
holds what was trained; nothing else of the policy is in the folder but its settings.
"""

import re
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from manyhands.errors import CheckpointError
from manyhands.lerobot_format.files import read_json, write_json

ADAPTER_CONFIG_FILE = "adapter_config.json"
ADAPTER_WEIGHTS_FILE = "adapter_model.safetensors"
NAME = "default"
"""What the adapters of a network are called there; files do not say it."""
BASE, REVISION = "base_model_name_or_path", "revision"
"""Keys that tell which policy adapters belong to."""

_PREFIX = "base_model.model."
_ADAPTER = re.compile(rf"(.*\.lora_\w+)\.{NAME}(\..+)?")
_WHOLE_MODULE = re.compile(rf"(.*)\.modules_to_save\.{NAME}(\..+)")

Settings = dict[str, Any]
"""What `adapter_config.json` says."""


def read_settings(folder: Path) -> Settings | None:
    """What a folder says of its adapters; None if it has none."""
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
    """Write what a folder says of its adapters, as peft does for those that are only used."""
    write_json(folder / ADAPTER_CONFIG_FILE, settings | {"inference_mode": True}, indent=2)


def file_name(name: str) -> str | None:
    """What files call a tensor of a network with adapters; None if it is not saved with them."""
    found = _ADAPTER.fullmatch(name) or _WHOLE_MODULE.fullmatch(name)
    return None if found is None else _PREFIX + found[1] + (found[2] or "")


def saved_tensors(network: nn.Module) -> dict[str, Tensor]:
    """What files hold of a network, by its names there: its adapters, or all where it has none."""
    state: dict[str, Tensor] = network.state_dict()
    named = ((file_name(name), value) for name, value in state.items())
    return {name: value for name, value in named if name is not None} or state
