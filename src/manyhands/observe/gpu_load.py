"""Load of one GPU, read from NVIDIA's driver through NVML."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch

Load = dict[str, float]

KINDS = ("GPU", "MIG")  # A GPU, or a slice of one: prefixes of their identifiers.


class GpuLoad:
    """Reads utilization, memory, power and clock of a GPU; what the driver withholds is absent."""

    def __init__(self, nvml: Any, uuid: str, cached_bytes: Callable[[], float]) -> None:
        self._nvml = nvml
        self._handle = find_gpu(nvml, uuid)
        self._cached_bytes = cached_bytes

    def read(self) -> Load:
        """The current load."""
        if self._handle is None:
            return {}
        load: Load = {}
        for measure in (self._utilization, self._memory, self._power, self._clock):
            with suppress(self._nvml.NVMLError):
                load |= measure()
        return load

    def _utilization(self) -> Load:
        return {"gpu_utilization": self._nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu / 100}

    def _memory(self) -> Load:
        memory = self._nvml.nvmlDeviceGetMemoryInfo(self._handle)
        needed = max(0.0, memory.used - self._cached_bytes())
        return {"gpu_memory_bytes": needed, "gpu_memory_share": needed / memory.total}

    def _power(self) -> Load:
        return {"gpu_power_w": self._nvml.nvmlDeviceGetPowerUsage(self._handle) / 1e3}

    def _clock(self) -> Load:
        kind = self._nvml.NVML_CLOCK_SM
        return {"gpu_clock_mhz": float(self._nvml.nvmlDeviceGetClockInfo(self._handle, kind))}


def find_gpu(nvml: Any, uuid: str) -> Any:
    """NVML's handle of a GPU; None if the driver does not know it."""
    # NVML counts all GPUs, CUDA those in CUDA_VISIBLE_DEVICES: indices differ, identifiers do not.
    for kind in KINDS:
        with suppress(nvml.NVMLError):
            return nvml.nvmlDeviceGetHandleByUUID(f"{kind}-{uuid}")
    return None


def torch_cache_bytes(device: torch.device) -> float:
    """Memory that torch has reserved on a GPU, but never needed."""
    return torch.cuda.memory_reserved(device) - torch.cuda.max_memory_allocated(device)


def open_gpus(devices: list[torch.device]) -> list[GpuLoad]:
    """The GPUs of a rank; none without a driver."""
    if not devices:
        return []
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    uuids = [str(torch.cuda.get_device_properties(device).uuid) for device in devices]
    return [
        GpuLoad(pynvml, uuid, partial(torch_cache_bytes, device))
        for uuid, device in zip(uuids, devices, strict=True)
    ]
