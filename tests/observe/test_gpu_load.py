"""The load of a GPU as the driver reports it."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from manyhands.observe.gpu_load import GpuLoad, open_gpus


class Driver:
    """A driver that knows one GPU, or one slice of a GPU, and withholds some of its values."""

    class NVMLError(Exception):
        """As pynvml raises it."""

    NVML_CLOCK_SM = 1

    def __init__(self, uuid: str, withheld: tuple[str, ...] = ()) -> None:
        self._uuid = uuid
        self._withheld = withheld

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid != self._uuid:
            raise self.NVMLError
        return uuid

    def __getattr__(self, name: str) -> Callable[..., Any]:
        values = {
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=87),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=60.0, total=100.0),
            "nvmlDeviceGetPowerUsage": 412_000,
            "nvmlDeviceGetClockInfo": 1755,
        }

        def ask(*_: object) -> Any:
            if name in self._withheld:
                raise self.NVMLError
            return values[name]

        return ask


def test_all_that_the_driver_knows_is_read():
    assert GpuLoad(Driver("GPU-abc"), "abc", lambda: 10.0).read() == {
        "gpu_utilization": 0.87,
        "gpu_memory_bytes": 50.0,
        "gpu_memory_share": 0.5,
        "gpu_power_w": 412.0,
        "gpu_clock_mhz": 1755.0,
    }


def test_a_slice_of_a_gpu_has_no_utilization_and_that_is_not_zero():
    driver = Driver("MIG-abc", ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage"))
    names = set(GpuLoad(driver, "abc", lambda: 0.0).read())
    assert names == {"gpu_memory_bytes", "gpu_memory_share", "gpu_clock_mhz"}


def test_a_gpu_that_the_driver_does_not_know_has_no_load():
    assert GpuLoad(Driver("GPU-abc"), "xyz", lambda: 0.0).read() == {}


def test_a_rank_without_a_gpu_asks_no_driver():
    assert open_gpus([]) == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_real_gpu_has_a_load():
    held = torch.ones(1 << 28, device="cuda")
    (gpu,) = open_gpus([torch.device("cuda", 0)])
    load = gpu.read()
    assert 0 <= load["gpu_utilization"] <= 1
    assert held.nbytes <= load["gpu_memory_bytes"]
    assert 0 < load["gpu_memory_share"] < 1
    assert load["gpu_power_w"] > 0 and load["gpu_clock_mhz"] > 0
