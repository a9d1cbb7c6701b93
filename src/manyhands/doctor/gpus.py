"""Checks of NVIDIA's driver, the GPUs and their links, through NVML."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pynvml
import torch

from manyhands import units
from manyhands.doctor.check import Check
from manyhands.launch.environment import gpus_that_compute, nvidia_driver, visible_gpus

MAX_OTHERS_SHARE = 0.1
"""Memory in use before training starts, above which another program is on the GPU."""
HOT_C = 85
"""Temperature from which GPUs lower their clock."""


ON_CPU = "or train on the CPU with --policy.device=cpu"
DRIVER_REMEDIES = {
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "The driver was updated while in use: restart "
    "the machine, or the container",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "Load the driver (sudo modprobe nvidia), or start the "
    "container with --gpus=all",
    pynvml.NVML_ERROR_NO_PERMISSION: "Check the permissions of /dev/nvidia*",
}
"""What to do about a driver that is installed and cannot be used."""
LOST = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)
"""Errors of a GPU that no program can use; others mean that the driver withholds a value."""


@dataclass(frozen=True)
class Gpu:
    """What the driver knows about a GPU."""

    name: str
    total_bytes: int | None
    """None where the GPU shares the memory of the host."""
    used_bytes: int | None
    temperature_c: int | None
    link_width: int | None
    max_link_width: int | None


@dataclass(frozen=True)
class Driver:
    """What the driver knows about a machine."""

    version: str
    cuda: tuple[int, int]
    gpus: list[Gpu | pynvml.NVMLError]
    """GPUs, or why one of them cannot be used."""
    nvlinks: list[bool]
    """Whether NVLink connects each pair of GPUs that can be used."""


def read_driver(nvml: Any) -> Driver:
    """Ask the driver."""
    major, rest = divmod(int(nvml.nvmlSystemGetCudaDriverVersion_v2()), 1000)
    gpus = [_read_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    usable = [index for index, gpu in enumerate(gpus) if isinstance(gpu, Gpu)]
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in usable]
    linked = [_is_linked(nvml, one, other) for one, other in combinations(handles, 2)]
    return Driver(_text(nvml.nvmlSystemGetDriverVersion()), (major, rest // 10), gpus, linked)


def _read_gpu(nvml: Any, index: int) -> Gpu | pynvml.NVMLError:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        memory = _known(nvml.nvmlDeviceGetMemoryInfo, handle)
        return Gpu(
            name=_text(nvml.nvmlDeviceGetName(handle)),
            total_bytes=None if memory is None else memory.total,
            used_bytes=None if memory is None else memory.used,
            temperature_c=_known(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            link_width=_known(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
            max_link_width=_known(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        )
    except pynvml.NVMLError as error:
        return error


def _known(ask: Any, *about: Any) -> Any:
    """An answer of the driver; None where it has none."""
    try:
        return ask(*about)
    except pynvml.NVMLError as error:
        if error.value in LOST:
            raise
    return None


def _is_linked(nvml: Any, one: Any, other: Any) -> bool:
    kind = nvml.NVML_P2P_CAPS_INDEX_NVLINK
    status = _known(nvml.nvmlDeviceGetP2PStatus, one, other, kind)
    return status is not None and int(status) == int(nvml.NVML_P2P_STATUS_OK)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def check_gpus() -> Iterator[Check]:
    """Check the driver, every GPU, their links and NCCL."""
    try:
        with nvidia_driver() as nvml:
            driver = read_driver(nvml)
    except pynvml.NVMLError as error:
        yield check_unusable_driver(error)
        return
    if not driver.gpus:
        yield Check("driver", "warn", "the NVIDIA driver has no GPU", f"See lspci, {ON_CPU}")
        return
    yield check_driver(driver, torch.version.cuda)
    yield from (check_gpu(number, gpu) for number, gpu in enumerate(driver.gpus))
    yield check_links(driver.nvlinks)
    if torch.version.cuda:
        yield check_computing(visible_gpus([*range(torch.cuda.device_count())]))
        yield Check("NCCL", "ok", nccl_version())


def check_unusable_driver(error: pynvml.NVMLError) -> Check:
    """A machine without a driver, or with one that does not answer."""
    if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        remedy = f"Install the NVIDIA driver, {ON_CPU}"
        return Check("driver", "warn", "no NVIDIA driver", remedy)
    remedy = DRIVER_REMEDIES.get(error.value, "See nvidia-smi and dmesg; restart the machine")
    return Check("driver", "fail", f"the NVIDIA driver cannot be used: {error}", remedy)


def check_driver(driver: Driver, torch_cuda: str | None) -> Check:
    """Whether the driver is new enough for the CUDA version of torch."""
    supported = ".".join(map(str, driver.cuda))
    found = f"{driver.version}, CUDA {supported}; torch for CUDA {torch_cuda or 'none'}"
    if torch_cuda is None:
        remedy = f"Install torch with CUDA {supported} or older: https://pytorch.org"
        return Check("driver", "fail", found, remedy)
    # Drivers run programs of any minor version of their own major version.
    if int(torch_cuda.split(".")[0]) > driver.cuda[0]:
        remedy = f"Install a newer driver, or torch for CUDA {driver.cuda[0]}"
        return Check("driver", "fail", found, remedy)
    return Check("driver", "ok", found)


def check_gpu(number: int, gpu: Gpu | pynvml.NVMLError) -> Check:
    """Whether a GPU is free, cool and fully connected."""
    if isinstance(gpu, pynvml.NVMLError):
        return check_unusable_gpu(number, gpu)
    found, remedies = gpu.name, []
    if gpu.total_bytes is None or gpu.used_bytes is None:
        found += ", memory not reported"
    else:
        found += f", {units.num_bytes(gpu.total_bytes)}, {units.num_bytes(gpu.used_bytes)} in use"
        if gpu.used_bytes > MAX_OTHERS_SHARE * gpu.total_bytes:
            remedies.append("Another program uses it: see nvidia-smi, or choose --launch.gpu_ids")
    if gpu.temperature_c is not None and gpu.temperature_c >= HOT_C:
        found += f", {gpu.temperature_c} degrees Celsius"
        remedies.append("It is hot and lowers its clock: check its cooling")
    if gpu.link_width is not None and gpu.link_width < (gpu.max_link_width or 0):
        found += f", PCIe x{gpu.link_width} of x{gpu.max_link_width}"
        remedies.append("Its slot has fewer PCIe lanes than it could use")
    return Check(f"GPU {number}", "warn" if remedies else "ok", found, "; ".join(remedies))


def check_unusable_gpu(number: int, error: pynvml.NVMLError) -> Check:
    """A GPU that failed, or that belongs to other users."""
    if error.value == pynvml.NVML_ERROR_NO_PERMISSION:
        return Check(f"GPU {number}", "skipped", f"not accessible to this process: {error}")
    remedy = (
        f"Reset it (sudo nvidia-smi -r -i {number}) or restart the machine; see dmesg. "
        "Until then exclude it in CUDA_VISIBLE_DEVICES"
    )
    return Check(f"GPU {number}", "fail", str(error), remedy)


def check_links(nvlinks: Sequence[bool]) -> Check:
    """How GPUs exchange gradients."""
    if not nvlinks:
        return Check("GPU links", "ok", "one GPU: no link needed")
    if all(nvlinks):
        return Check("GPU links", "ok", "NVLink between all GPUs")
    found = f"PCIe: NVLink connects {sum(nvlinks)} of {len(nvlinks)} pairs of GPUs"
    remedy = "If communication limits the speed: --accelerator.ddp.gradient_compression=bf16"
    return Check("GPU links", "ok", found, remedy)


def check_computing(names: Sequence[str]) -> Check:
    """Whether every visible GPU computes, each tried in a process of its own."""
    if not names:
        remedy = "Check CUDA_VISIBLE_DEVICES, or how the container was started"
        return Check("computing", "warn", "no GPU is visible to torch", remedy)
    working = gpus_that_compute(names)
    found = f"{len(working)} of {len(names)} visible GPUs compute"
    if len(working) == len(names):
        return Check("computing", "ok", found)
    idle = ", ".join(name for name in names if name not in working)
    remedy = f"Exclude {idle} in CUDA_VISIBLE_DEVICES; see dmesg and nvidia-smi"
    return Check("computing", "fail", found, remedy)


def nccl_version() -> str:
    """The version of NCCL that torch was built with."""
    nccl: Any = torch.cuda.nccl
    return ".".join(map(str, nccl.version()))
