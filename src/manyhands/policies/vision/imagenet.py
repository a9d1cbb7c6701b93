"""Published ImageNet weights of residual networks, and files of such weights."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from manyhands.errors import CheckpointError, UserError, WeightsUnavailable
from manyhands.lerobot_format.files import read_tensors
from manyhands.lerobot_format.policy.folder import mismatches
from manyhands.policies.vision.resnet import TORCHVISION, ResNet

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
"""ImageNet weights by LeRobot's names, and the files PyTorch publishes and caches them in.

The end of a file's name is the start of its SHA-256.
"""

_CLASSIFIER = "fc."
_COUNTER = "num_batches_tracked"

Weights = Mapping[str, Tensor]


def load_imagenet(backbones: Sequence[ResNet], name: str, weights: str) -> None:
    """Load ImageNet weights into backbones, from PyTorch's cache or the network."""
    fitting = [known for known in PRETRAINED_FILES if known.lower().startswith(f"{name}_")]
    if weights not in fitting:
        raise UserError(
            f"--policy.pretrained_backbone_weights={weights} does not match "
            f"--policy.vision_backbone={name}. Use one of {', '.join(fitting)}, or null"
        )
    path = _cached(PRETRAINED_FILES[weights])
    published = _read(path)
    for backbone in backbones:
        _fill(backbone, published, str(path))


def load_backbone_file(backbones: Sequence[ResNet], file: Path) -> None:
    """Load a weights file with torchvision's names into backbones."""
    # Safetensors, or what `torch.save` made of plain tensors; code in such a file is never run.
    path, flag = file.expanduser(), f"--policy.backbone_weights={file}"
    if not path.is_file():
        raise UserError(f"{flag} is not a file")
    try:
        weights = read_tensors(path) if path.suffix == ".safetensors" else _read(path)
    except CheckpointError as error:
        raise UserError(str(error)) from None
    for backbone in backbones:
        _fill(backbone, weights, flag)


def _fill(backbone: ResNet, weights: Weights, source: str) -> None:
    """Copy tensors into a backbone, whatever its submodules' names; skip its classifier."""
    own, names = backbone.state_dict(), dict(zip(backbone.names, TORCHVISION, strict=True))
    published_names = {key: _renamed(key, names) for key in own}
    wanted = {published_names[key]: value for key, value in own.items()}
    # Not every norm counts its batches, and not every file was published by one that did.
    counts = {key: value for key, value in wanted.items() if key.endswith(_COUNTER)}
    found = counts | {
        key: value
        for key, value in weights.items()
        if key in wanted or not (key.startswith(_CLASSIFIER) or key.endswith(_COUNTER))
    }
    faults = mismatches(found, wanted)
    if faults:
        raise UserError(f"{source} does not match --policy.vision_backbone:\n{faults}")
    backbone.load_state_dict({key: found[name] for key, name in published_names.items()})


def _renamed(key: str, names: Mapping[str, str]) -> str:
    part, dot, rest = key.partition(".")
    return names[part] + dot + rest


def _cached(file_name: str) -> Path:
    path = Path(torch.hub.get_dir(), "checkpoints", file_name)
    digest = path.stem.rpartition("-")[2]
    if not path.is_file():
        _fetch(path, digest)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if not found.startswith(digest):
        raise UserError(
            f"{path} is damaged: its SHA-256 starts with {found[: len(digest)]}. Delete it to "
            "download it again"
        )
    return path


def _fetch(path: Path, digest: str) -> None:
    url = f"{_PUBLISHER}/{path.name}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(url, str(path), digest, progress=False)
    # A download of another content is a RuntimeError there.
    except (OSError, RuntimeError) as error:
        raise WeightsUnavailable(
            f"cannot download pretrained weights {path.name} from {url}: {error}\n"
            f"Fix: put the file into {path.parent}, or set --policy.backbone_weights={path.name},\n"
            "or use random weights: --policy.pretrained_backbone_weights=null"
        ) from None


def _read(path: Path) -> Weights:
    """The tensors in a PyTorch file; only plain data is read."""
    try:
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError:
        raise UserError(
            f"{path} is damaged, or contains more than tensors (pickled code is never run). "
            "Save the plain state_dict of the network, preferably as .safetensors"
        ) from None
    except (OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise UserError(f"{path} is damaged or not a weights file: {error}") from None
    if not isinstance(state, Mapping) or not all(
        isinstance(each, Tensor) for each in state.values()
    ):
        raise UserError(
            f"{path} contains no named tensors. Save the plain state_dict of the network"
        )
    return state
