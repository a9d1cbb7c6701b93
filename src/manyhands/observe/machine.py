"""Facts about this machine and its software, for `run.json`."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psutil
import torch

from manyhands.cores import num_cores
from manyhands.version import VERSION

PACKAGES = ("torch", "accelerate", "safetensors", "numpy", "pyarrow", "av")


def software_versions() -> dict[str, str]:
    """Versions of everything that decides a run's numbers."""
    versions = {"python": platform.python_version(), "manyhands": VERSION}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    if torch.version.cuda:
        versions["cuda"] = torch.version.cuda
    return versions


def hardware() -> dict[str, Any]:
    """Processor, memory and GPUs."""
    return {
        "platform": platform.platform(),
        "cores": num_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())],
    }
