"""Load a policy from a folder or the Hub."""

from functools import partial
from pathlib import Path

import torch
from huggingface_hub.errors import HFValidationError

from manyhands.config.files.config_files import POLICY_PLACES, find_policy_folder
from manyhands.config.files.hub import HUB_ERRORS, fetch, hub_error, snapshot
from manyhands.config.policies.base import PolicyConfig
from manyhands.errors import CheckpointError, ConfigError, UserError
from manyhands.lerobot_format.policy.folder import (
    ADAPTER_CONFIG_FILE,
    BASE,
    CONFIG_FILE,
    REVISION,
    Settings,
    load_weights,
    read_config,
    read_processors,
    read_settings,
)
from manyhands.policies.adapters import adapt
from manyhands.policies.build import assemble_policy
from manyhands.policies.policy import Policy
from manyhands.types import Stats

_FILES = ["*.json", "*.safetensors"]


def load_policy(
    folder_or_repo_id: Path | str,
    device: torch.device | str | None = None,
    revision: str | None = None,
) -> Policy:
    """The policy in a folder or on the Hub, with its processors, in evaluation mode.

    A folder may be a run directory, whose newest checkpoint is meant, or one of its checkpoints.
    Without a device it uses its configuration's device, else a GPU if there is one.
    """
    folder = find_policy(folder_or_repo_id, revision)
    return load_configured(folder, read_config(folder), device)


def load_configured(
    folder: Path, config: PolicyConfig, device: torch.device | str | None = None
) -> Policy:
    """The policy in a folder, with a config that need not be the one there."""
    config = config.without_downloads()
    try:
        policy = assemble_policy(config, read_processors(folder))
    except ConfigError as error:
        raise CheckpointError(f"{folder / CONFIG_FILE}: {error}") from None
    prepare_adapters(policy, folder)
    load_weights(policy.network, folder)
    return policy.to(choose_device(device, config.device)).eval()


def load_pretrained(policy: Policy, config: PolicyConfig) -> None:
    """Start a policy from the weights at `config.pretrained_path`, a folder or a Hub name."""
    assert config.pretrained_path is not None
    folder = find_policy(config.pretrained_path, config.pretrained_revision)
    try:
        prepare_adapters(policy, folder)
        load_weights(policy.network, folder)
    except CheckpointError as error:
        path = config.pretrained_path
        raise CheckpointError(f"--policy.path={path} with these flags: {error}") from None


def prepare_adapters(policy: Policy, folder: Path) -> None:
    """Where a folder has adapters, load the base weights and add the adapters' layers."""
    settings = read_settings(folder)
    if settings is not None:
        load_weights(policy.network, find_base_policy(settings, folder / ADAPTER_CONFIG_FILE))
        adapt(policy, settings)
    elif policy.config.use_peft:
        raise CheckpointError(
            f"{folder / ADAPTER_CONFIG_FILE} is missing, but {CONFIG_FILE} declares adapters. "
            "Copy or download the folder again"
        )


def find_base_policy(settings: Settings, file: Path) -> Path:
    """The folder of the adapters' base policy."""
    base = settings.get(BASE)
    if base is None:
        raise CheckpointError(f"{file} does not name its base policy ({BASE})")
    try:
        folder = find_policy(base, settings.get(REVISION))
    except CheckpointError as error:
        raise CheckpointError(
            f"{file}: base policy {base} is not available: {error}. Restore it (a link is "
            f"enough), or set {BASE} in that file"
        ) from None
    if (folder / ADAPTER_CONFIG_FILE).is_file():
        raise CheckpointError(
            f"{file}: base policy {base} has adapters itself. Merge them: manyhands convert "
            f"--checkpoint={base} --output=FOLDER"
        )
    return folder


def saved_stats(folder: Path | str) -> Stats:
    """The statistics that a saved policy scales by."""
    return read_processors(find_policy(folder)).inputs.stats


def find_policy(folder_or_repo_id: Path | str, revision: str | None = None) -> Path:
    """The folder of a policy's files, downloaded from the Hub if needed."""
    folder = Path(folder_or_repo_id)
    found = find_policy_folder(folder)
    if found is not None:
        return found
    if folder.exists():
        raise CheckpointError(f"{folder} contains no policy; looked for {POLICY_PLACES}")
    name = str(folder_or_repo_id) + (f" at revision {revision}" if revision else "")
    download = partial(snapshot, revision=revision, allow_patterns=_FILES)
    try:
        fetched = find_policy_folder(fetch(partial(download, str(folder_or_repo_id))))
    except HFValidationError:
        raise CheckpointError(
            f"{folder_or_repo_id} is neither a folder nor a Hub repository ID"
        ) from None
    except HUB_ERRORS as error:
        raise CheckpointError(
            f"{name} is not a local folder and cannot be downloaded from the Hub "
            f"({hub_error(error)}). Check the name, or copy the policy's folder to this machine "
            "and pass its path"
        ) from None
    if fetched is None:
        raise CheckpointError(f"{name} on the Hub contains no policy: {CONFIG_FILE} is missing")
    return fetched


def choose_device(requested: torch.device | str | None, saved: str | None) -> torch.device:
    """The requested device; else the first available of the saved one, a GPU, the CPU."""
    if requested is not None:
        if not _is_here(requested):
            raise UserError(f"device {requested} is not available on this machine. Use cpu")
        return torch.device(requested)
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
