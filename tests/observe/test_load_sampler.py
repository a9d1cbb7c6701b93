"""Load that a thread samples beside training."""

import threading
import time

import psutil
import torch

from manyhands.observe.load_sampler import LoadSampler, means, read_host, worst

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
