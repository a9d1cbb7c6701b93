"""What the driver says about GPUs, judged."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pynvml
import pytest
import torch

from manyhands.doctor.gpus import (
    Driver,
    Gpu,
    check_computing,
    check_driver,
    check_gpu,
    check_gpus,
    check_links,
    read_driver,
)

H200 = Gpu("H200", 140 << 30, 1 << 30, 40, 16, 16)


class Machine:
    """A driver of two GPUs that NVLink connects, and that withholds their temperature."""

    NVML_TEMPERATURE_GPU, NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK = 0, 2, 0
    answers: ClassVar[dict[str, Any]] = {
        "nvmlInit": None,
        "nvmlShutdown": None,
        "nvmlDeviceGetCount": 2,
        "nvmlDeviceGetHandleByIndex": "handle",
        "nvmlSystemGetCudaDriverVersion_v2": 12080,
        "nvmlSystemGetDriverVersion": b"570.1",
        "nvmlDeviceGetName": "H200",
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=H200.total_bytes, used=H200.used_bytes),
        "nvmlDeviceGetCurrPcieLinkWidth": 16,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetP2PStatus": 0,
    }

    def __init__(self, **errors: dict[int, int]) -> None:
        self._errors = errors
        """Errors by question, and by the GPU that is asked for."""

    def __getattr__(self, name: str) -> Any:
        def ask(index: object = None, *_: object) -> Any:
            code = self._errors.get(name, {}).get(index)
            if code is not None or name not in self.answers:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED if code is None else code)
            return index if name == "nvmlDeviceGetHandleByIndex" else self.answers[name]

        return ask


UNKNOWN_MEMORY = {"total_bytes": None, "used_bytes": None}


def test_a_driver_is_read():
    gpu = replace(H200, temperature_c=None)
    assert read_driver(Machine()) == Driver("570.1", (12, 8), [gpu, gpu], [True])


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION])
def test_a_gpu_that_withholds_its_memory_is_usable(code):
    driver = read_driver(Machine(nvmlDeviceGetMemoryInfo={1: code}))
    gpu = replace(H200, temperature_c=None)
    assert driver.gpus == [gpu, replace(gpu, **UNKNOWN_MEMORY)] and driver.nvlinks == [True]


@pytest.mark.parametrize(
    ("question", "code", "state"),
    [
        ("nvmlDeviceGetHandleByIndex", pynvml.NVML_ERROR_GPU_IS_LOST, "fail"),
        ("nvmlDeviceGetMemoryInfo", pynvml.NVML_ERROR_GPU_IS_LOST, "fail"),
        ("nvmlDeviceGetCurrPcieLinkWidth", pynvml.NVML_ERROR_RESET_REQUIRED, "fail"),
        ("nvmlDeviceGetHandleByIndex", pynvml.NVML_ERROR_NO_PERMISSION, "skipped"),
    ],
)
def test_one_gpu_that_cannot_be_used_hides_no_other(question, code, state):
    driver = read_driver(Machine(**{question: {1: code}}))
    good, bad = (check_gpu(number, gpu) for number, gpu in enumerate(driver.gpus))
    assert (good.state, bad.state) == ("ok", state) and driver.nvlinks == []
    assert str(pynvml.NVMLError(code)) in bad.found


@pytest.mark.parametrize(
    ("code", "state", "remedy"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "warn", "--policy.device=cpu"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "fail", "restart"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "fail", "modprobe"),
        (pynvml.NVML_ERROR_UNKNOWN, "fail", "dmesg"),
    ],
)
def test_a_driver_that_does_not_answer_is_no_missing_driver(monkeypatch, code, state, remedy):
    machine = Machine(nvmlInit={None: code})
    monkeypatch.setattr(pynvml, "nvmlInit", machine.nvmlInit)
    (check,) = check_gpus()
    assert check.state == state and remedy in check.remedy
    assert (str(pynvml.NVMLError(code)) in check.found) == (state == "fail")


@pytest.mark.parametrize(
    ("torch_cuda", "state"), [("12.9", "ok"), ("11.8", "ok"), ("13.0", "fail"), (None, "fail")]
)
def test_torch_needs_a_driver_of_its_major_version(torch_cuda, state):
    assert check_driver(Driver("570.1", (12, 8), [H200], []), torch_cuda).state == state


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({}, ""),
        ({"used_bytes": 100 << 30}, "--launch.gpu_ids"),
        ({"temperature_c": 90}, "cooling"),
        ({"link_width": 4}, "PCIe lanes"),
        (UNKNOWN_MEMORY, ""),
        ({"link_width": None, "max_link_width": None, "temperature_c": None}, ""),
    ],
)
def test_a_gpu_that_is_shared_hot_or_badly_connected_is_a_warning(change, remedy):
    check = check_gpu(3, replace(H200, **change))
    assert check.name == "GPU 3" and remedy in check.remedy
    assert check.state == ("warn" if remedy else "ok")


def test_links_are_named():
    assert "no link needed" in check_links([]).found
    assert check_links([True]).found == "NVLink between all GPUs"
    assert "1 of 3 pairs" in check_links([True, False, False]).found


def test_no_visible_gpu_is_a_warning():
    assert check_computing([]).state == "warn"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_machine_without_a_gpu_is_usable():
    (check,) = check_gpus()
    assert check.state == "warn" and "--policy.device=cpu" in check.remedy


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_machine_with_a_gpu_passes_every_check():
    checks = {check.name: check for check in check_gpus()}
    assert {"driver", "GPU 0", "GPU links", "computing", "NCCL"} <= set(checks)
    assert all(check.state != "fail" for check in checks.values()), checks
