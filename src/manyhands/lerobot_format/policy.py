"""A policy folder as LeRobot lays it out: `config.json`, `model.safetensors` and the processors."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyhands.config.decode import decode, nearest
from manyhands.config.policies import POLICY_TYPES
from manyhands.config.policy import PolicyConfig
from manyhands.config.schema import encode
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.files import read_json, read_tensors, write_json, write_tensors
from manyhands.lerobot_format.processor import Processors, write_processors

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"

_MAX_NAMES_SHOWN = 8


def read_config(folder: Path) -> PolicyConfig:
    """The policy configuration in a folder; its owner's wish to publish it is not ours."""
    path = folder / CONFIG_FILE
    document = read_json(path)
    if "type" not in document:
        raise CheckpointError(f"{path} has no key type; it must name the policy, such as act")
    kind = str(document.pop("type"))
    if kind not in POLICY_TYPES:
        known, hint = ", ".join(POLICY_TYPES), nearest(kind, POLICY_TYPES)
        raise CheckpointError(f"{path}: unknown policy type {kind}{hint} (known: {known})")
    for key in ("input_features", "output_features"):
        document[key] = document.get(key) or {}
    try:
        config: PolicyConfig = decode(POLICY_TYPES[kind], document)
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from None
    return replace(config, push_to_hub=False)


def write_config(folder: Path, config: PolicyConfig) -> None:
    """Write a configuration with LeRobot's keys in LeRobot's order."""
    write_json(folder / CONFIG_FILE, encode(self_contained(config)), indent=4)


def self_contained(config: PolicyConfig) -> PolicyConfig:
    """The configuration of a policy whose folder holds all its weights: nothing is fetched."""
    elsewhere = {item.name for item in fields(config)} & {"pretrained_backbone_weights"}
    nothing: dict[str, Any] = dict.fromkeys(elsewhere)
    return replace(config, **nothing)


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights in a folder by LeRobot's names."""
    path = folder / WEIGHTS_FILE
    if not path.is_file() and (folder / "pytorch_model.bin").is_file():
        raise CheckpointError(
            f"{folder} holds pytorch_model.bin, a pickle; weights must be safetensors: "
            f"save the policy again with LeRobot to get {WEIGHTS_FILE}"
        )
    return {name.replace("._orig_mod", ""): value for name, value in read_tensors(path).items()}


def load_weights(network: nn.Module, folder: Path) -> None:
    """Copy a folder's weights into a network that has the same names and shapes, and no others."""
    weights, own = read_weights(folder), network.state_dict()
    shared = [name for name in own if name in weights]
    faults = [
        _listed("missing", [name for name in own if name not in weights]),
        _listed("unexpected", [name for name in weights if name not in own]),
        _listed(
            "of another shape",
            [
                f"{name} ({_size(weights[name])} in the file, {_size(own[name])} in the policy)"
                for name in shared
                if weights[name].shape != own[name].shape
            ],
        ),
    ]
    if any(faults):
        listing = "\n".join(filter(None, faults))
        raise CheckpointError(
            f"{folder / WEIGHTS_FILE} does not fit {folder / CONFIG_FILE}:\n{listing}"
        )
    network.load_state_dict(weights)


def write_policy(
    folder: Path, config: PolicyConfig, processors: Processors, weights: Mapping[str, Tensor]
) -> None:
    """Write a whole policy folder that LeRobot loads offline."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / WEIGHTS_FILE, weights, metadata={"format": "pt"})
    write_processors(folder, processors, torch.device(config.device or "cpu").type)
    write_config(folder, config)


def _listed(kind: str, names: Iterable[str]) -> str:
    names = list(names)
    if not names:
        return ""
    shown = ", ".join(names[:_MAX_NAMES_SHOWN])
    more = len(names) - _MAX_NAMES_SHOWN
    return f"  {len(names)} {kind}: {shown}" + (f" and {more} more" if more > 0 else "")


def _size(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"
