"""Facts about this machine and its software, for `run.json`."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from manyhands.cores import num_cores
from manyhands.observe.host_memory import host_memory
from manyhands.version import VERSION

PACKAGES = ("torch", "accelerate", "safetensors", "numpy", "pyarrow", "av")


def software_versions() -> dict[str, str]:
    """Versions of all software that affects the results of a run."""
    versions = {"python": platform.python_version(), "manyhands": VERSION}
    versions |= {package: _version(package) for package in PACKAGES}
    if torch.version.cuda:
        versions["cuda"] = torch.version.cuda
    return versions


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def hardware() -> dict[str, Any]:
    """Processor, memory and GPUs."""
    return {
        "platform": platform.platform(),
        "cores": num_cores(),
        "memory_bytes": host_memory().total_bytes,
        "gpus": [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())],
    }
