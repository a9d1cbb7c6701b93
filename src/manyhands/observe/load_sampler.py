"""Load of a rank's machine and GPUs, sampled by a background thread."""

import math
import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import fmean

import torch

from manyhands.observe.gpu_load import Load, open_gpus
from manyhands.observe.host_memory import host_memory

PERIOD_S = (
    1.0  # NVML's utilization is a mean over up to a second; a sample takes about a millisecond.
)

OF_TRAINING = ("gpu_utilization", "gpu_power_w", "gpu_clock_mhz")
"""Measures of the speed of training, to which validation and evaluation do not count."""

WORST: Mapping[str, Callable[[Iterable[float]], float]] = {
    "gpu_utilization": min,
    "gpu_memory_bytes": max,
    "gpu_memory_share": max,
    "gpu_power_w": max,
    "gpu_clock_mhz": min,
    "host_memory_bytes": max,
    "disk_free_bytes": min,
}
"""Which of several GPUs or ranks a row of metrics shows."""


class LoadSampler:
    """Samples load about once per second while a run trains."""

    def __init__(
        self,
        run_dir: Path,
        devices: Iterable[torch.device],
        trains_for_s: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self._run_dir = run_dir
        self._trains_for_s = trains_for_s  # Returns since when the rank does nothing but train.
        self._devices = [device for device in devices if device.type == "cuda"]
        self._lock = threading.Lock()
        self._samples: list[Load] = []
        self._newest: Load = {}
        self._is_over = threading.Event()

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Sample inside the block."""
        self._is_over.clear()
        thread = threading.Thread(target=self._run, name="load-sampler", daemon=True)
        thread.start()
        try:
            yield
        finally:
            # A driver that hangs must not keep the run.
            self._is_over.set()
            thread.join(PERIOD_S)

    def lap(self) -> Load:
        """Means over the samples since the last lap, or else the newest values."""
        with self._lock:
            samples, self._samples = self._samples, []
            return self._newest | means(samples)

    def _run(self) -> None:
        gpus = open_gpus(self._devices)
        while True:
            sample = worst([*(gpu.read() for gpu in gpus), read_host(self._run_dir)])
            # NVML's values are those of the last second.
            self._add(sample if self._trains_for_s() >= PERIOD_S else without_speed(sample))
            if self._is_over.wait(PERIOD_S):
                return

    def _add(self, sample: Load) -> None:
        with self._lock:
            self._samples.append(sample)
            self._newest = self._newest | sample


def without_speed(load: Load) -> Load:
    """A sample that was not taken while training."""
    return {name: value for name, value in load.items() if name not in OF_TRAINING}


def read_host(run_dir: Path) -> Load:
    """Memory in use on this machine or in this job, and free disk space of the run directory."""
    load: Load = {"host_memory_bytes": float(host_memory().used_bytes)}
    # The run reports a missing folder better.
    with suppress(OSError):
        load["disk_free_bytes"] = float(shutil.disk_usage(run_dir).free)
    return load


def worst(loads: Iterable[Load]) -> Load:
    """The lowest or highest value of each measure, as a row of metrics shows it."""
    return {name: WORST[name](found) for name, found in _columns(loads).items()}


def means(loads: Iterable[Load]) -> Load:
    """The mean of each measure."""
    return {name: fmean(found) for name, found in _columns(loads).items()}


def _columns(loads: Iterable[Load]) -> dict[str, list[float]]:
    columns: defaultdict[str, list[float]] = defaultdict(list)
    for load in loads:
        for name, value in load.items():
            columns[name].append(value)
    return dict(columns)
