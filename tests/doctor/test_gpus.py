"""What the driver says about GPUs, judged."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

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

    class NVMLError(Exception):
        """As pynvml raises it."""

    NVML_TEMPERATURE_GPU, NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK = 0, 2, 0
    answers: ClassVar[dict[str, Any]] = {
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

    def __getattr__(self, name: str) -> Any:
        def ask(*_: object) -> Any:
            if name not in self.answers:
                raise self.NVMLError
            return self.answers[name]

        return ask


def test_a_driver_is_read():
    gpu = replace(H200, temperature_c=None)
    assert read_driver(Machine()) == Driver("570.1", (12, 8), [gpu, gpu], [True])


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
