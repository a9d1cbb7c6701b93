"""From a folder or the Hub to a policy that is ready to use."""

from pathlib import Path

import torch

from manyhands.config.policy import PolicyConfig
from manyhands.errors import CheckpointError, ConfigError, UserError
from manyhands.lerobot_format.policy import (
    CONFIG_FILE,
    load_weights,
    read_config,
    self_contained,
)
from manyhands.lerobot_format.processor import read_processors
from manyhands.policies.build import assemble_policy
from manyhands.policies.policy import Policy

_HUB_FILES = ["*.json", "*.safetensors"]


def load_policy(folder_or_repo_id: Path | str, device: torch.device | str | None = None) -> Policy:
    """The policy in a folder or on the Hub, with its processors, in evaluation mode.

    Without a device it goes where its configuration says, or else to a GPU if there is one.
    """
    folder = find_policy(folder_or_repo_id)
    config = self_contained(read_config(folder))
    try:
        policy = assemble_policy(config, read_processors(folder))
    except ConfigError as error:
        raise CheckpointError(f"{folder / CONFIG_FILE}: {error}") from None
    load_weights(policy.network, folder)
    return policy.to(choose_device(device, config.device)).eval()


def load_pretrained(policy: Policy, config: PolicyConfig) -> None:
    """Start a policy from the weights at `config.pretrained_path`, a folder or a Hub name."""
    assert config.pretrained_path is not None
    folder = find_policy(config.pretrained_path, config.pretrained_revision)
    load_weights(policy.network, folder)


def find_policy(folder_or_repo_id: Path | str, revision: str | None = None) -> Path:
    """The folder that holds a policy's files, fetched from the Hub if it is not here."""
    folder = Path(folder_or_repo_id)
    for candidate in (folder, folder / "pretrained_model"):
        if (candidate / CONFIG_FILE).is_file():
            return candidate
    if folder.exists():
        raise CheckpointError(
            f"{folder} holds no policy: there is no {CONFIG_FILE} in it or its pretrained_model"
        )
    return find_policy(_download(str(folder_or_repo_id), revision))


def _download(repo_id: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        return Path(snapshot_download(repo_id, revision=revision, allow_patterns=_HUB_FILES))
    except HFValidationError:
        raise CheckpointError(
            f"{repo_id} is neither a folder nor the name of a Hub repository"
        ) from None
    except OSError as error:
        reason = str(error).strip().partition("\n")[0]
        raise CheckpointError(
            f"{repo_id} is no folder here and cannot be fetched from the Hub ({reason}); "
            "check the name, or copy the policy's folder to this machine and give its path"
        ) from None


def choose_device(asked: torch.device | str | None, saved: str | None) -> torch.device:
    """The device asked for; or the one saved, a GPU, the CPU, whichever is here first."""
    if asked is not None:
        if not _is_here(asked):
            raise UserError(f"device {asked} is not available on this machine")
        return torch.device(asked)
    for candidate in (saved, "cuda"):
        if candidate is not None and _is_here(candidate):
            return torch.device(candidate)
    return torch.device("cpu")


def _is_here(device: torch.device | str) -> bool:
    try:
        kind = torch.device(device)
    except RuntimeError:
        return False
    if kind.type == "cuda":
        return (kind.index or 0) < torch.cuda.device_count()
    return kind.type == "cpu" or (kind.type == "mps" and torch.backends.mps.is_available())
