"""Load that a thread samples beside training."""

import threading
import time

import psutil
import pytest
import torch

from manyhands.observe import load_sampler
from manyhands.observe.clock import Clock
from manyhands.observe.load_sampler import LoadSampler, means, read_host, worst
from manyhands.observe.meters import NOT_TRAINING

CPU = torch.device("cpu")


def test_a_lap_has_the_means_since_the_last_and_never_none(tmp_path):
    sampler = LoadSampler(tmp_path, [CPU])
    with sampler.sampling():
        deadline = time.monotonic() + 10
        while not (lap := sampler.lap()) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert set(lap) == {"host_memory_bytes", "disk_free_bytes"}
        assert 0 < lap["host_memory_bytes"] < psutil.virtual_memory().total
        assert sampler.lap() == lap
    assert "load-sampler" not in {thread.name for thread in threading.enumerate()}


class Gpu:
    """A GPU that is as busy as it was told to be."""

    utilization = 0.9

    def read(self):
        return {"gpu_utilization": self.utilization, "gpu_memory_bytes": 10 * self.utilization}


def test_the_speed_of_a_gpu_during_evaluation_does_not_count(tmp_path, monkeypatch):
    gpu, clock = Gpu(), Clock()
    monkeypatch.setattr(load_sampler, "open_gpus", lambda _: [gpu])
    monkeypatch.setattr(load_sampler, "PERIOD_S", 0.05)
    sampler = LoadSampler(tmp_path, [CPU], lambda: clock.seconds_since(NOT_TRAINING))
    with sampler.sampling():
        time.sleep(0.3)
        assert sampler.lap()["gpu_utilization"] == pytest.approx(0.9)
        with clock.timing("evaluate"):
            gpu.utilization = 0.1
            time.sleep(0.3)
            gpu.utilization = 0.9
        lap = sampler.lap()
        # A row without any sample of training has the last one; memory is needed all the time.
        assert lap["gpu_utilization"] == pytest.approx(0.9)
        assert lap["gpu_memory_bytes"] < 5
        time.sleep(0.3)
        assert sampler.lap()["gpu_utilization"] == pytest.approx(0.9)


def test_a_sampler_that_never_ran_has_nothing(tmp_path):
    assert LoadSampler(tmp_path, [CPU]).lap() == {}


def test_a_folder_that_was_removed_has_no_free_space(tmp_path):
    assert set(read_host(tmp_path / "gone")) == {"host_memory_bytes"}


def test_a_row_shows_the_worst_gpu():
    loads = [
        {"gpu_utilization": 0.9, "gpu_memory_bytes": 5.0, "gpu_clock_mhz": 1700.0},
        {"gpu_utilization": 0.4, "gpu_memory_bytes": 3.0, "disk_free_bytes": 7.0},
    ]
    assert worst(loads) == {
        "gpu_utilization": 0.4,
        "gpu_memory_bytes": 5.0,
        "gpu_clock_mhz": 1700.0,
        "disk_free_bytes": 7.0,
    }
    assert means(loads)["gpu_utilization"] == 0.65
    assert worst([]) == means([]) == {}


def test_a_sample_takes_milliseconds(tmp_path):
    begin = time.perf_counter()
    for _ in range(20):
        read_host(tmp_path)
    assert (time.perf_counter() - begin) / 20 < 0.01
