"""Optional packages that single import formats need."""

import importlib
from typing import Any

from manyhands.errors import EnvironmentFault


def required(package: str, purpose: str, install: str = "'manyhands[import]'") -> Any:
    """Import a package; raises an error with the install command if it is missing."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is None or not package.startswith(error.name):
            raise
        raise EnvironmentFault(
            f"{purpose} needs the package {package.partition('.')[0]}. Install: pip install "
            f"{install}"
        ) from None
