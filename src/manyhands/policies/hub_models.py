"""Pretrained models that policies build on: local folders, or from the Hub."""

import importlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

from huggingface_hub import constants
from huggingface_hub.errors import HFValidationError

from manyhands.config.files.hub import HUB_ERRORS, fetch, hub_error, snapshot
from manyhands.errors import UserError, WeightsUnavailable

SETTINGS = ("*.json", "*.txt")  # Configuration and tokenizer files of a model.
WEIGHTS = "*.safetensors"


def model_folder(name: str, flag: str, patterns: Sequence[str] = SETTINGS) -> Path:
    """The folder of a model, downloaded from the Hub if needed; errors name `flag`."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    remedy = f"Copy the model's folder to this machine and set {flag} to its path"
    try:
        return fetch(partial(snapshot, name, allow_patterns=list(patterns)))
    except HFValidationError:
        raise WeightsUnavailable(
            f"{flag}={name} is neither a folder nor a model on the Hub. {remedy}"
        ) from None
    except HUB_ERRORS as error:
        raise WeightsUnavailable(
            f"{flag}={name} is not a local folder and cannot be downloaded from the Hub "
            f"({hub_error(error)}). {remedy}, or run `hf download {name}` on a machine with "
            f"network access and copy {constants.HF_HUB_CACHE} here"
        ) from None


def extra_module(name: str, extra: str, asker: str | None = None) -> ModuleType:
    """A module of an optional package; `asker` names who needs it, a policy type by default."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise UserError(
            f"{asker or f'--policy.type={extra}'} needs the package {package}. Install: pip "
            f"install 'manyhands[{extra}]'"
        ) from None
