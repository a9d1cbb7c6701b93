"""Default links between processes."""

from collections.abc import Iterator
from typing import Any

from manyhands.launch.environment import ask_driver
from manyhands.plan.communication import Link

YIELD = 0.8
"""Fraction of a link's peak rate that collectives reach."""
GPUS_PER_MACHINE = 8
"""Typical GPUs per machine; more are assumed to be on several machines."""
NVLINK_GBPS = {1: 160.0, 2: 200.0, 3: 200.0, 4: 200.0, 5: 200.0, 6: 200.0, 7: 400.0}
"""Peak rate of one NVLink in one direction, by NVML's number of its version."""
NVLINK_LATENCY_US = 3.0
LANE_GBPS = {1: 2.0, 2: 4.0, 3: 7.88, 4: 15.75, 5: 31.5, 6: 60.5}
"""Peak rate of one PCIe lane in one direction, by its generation."""
PCIE_LATENCY_US = 6.0

LOOPBACK = Link(name="loopback of this machine", gbps=10.0, latency_us=30.0)
ETHERNET = Link(name="10 Gbit/s Ethernet", gbps=YIELD * 10.0, latency_us=50.0)
FAST_ETHERNET = Link(name="100 Gbit/s Ethernet", gbps=YIELD * 100.0, latency_us=30.0)


def usual_link(is_gpu: bool, num_processes: int, capacity: int) -> Link:
    """The default link of a ring; the slowest one if it spans several machines."""
    if not is_gpu:
        return LOOPBACK if num_processes <= capacity else ETHERNET
    if num_processes <= max(GPUS_PER_MACHINE, capacity):
        return link_between_gpus()
    return FAST_ETHERNET


def link_between_gpus() -> Link:
    """The link of this machine's first GPU to another."""
    detected = ask_driver(lambda nvml: link_of_gpu(nvml, nvml.nvmlDeviceGetHandleByIndex(0)))
    return detected or pcie_link(generation=4, num_lanes=16)


def link_of_gpu(nvml: Any, gpu: Any) -> Link:
    """NVLink if active, else PCIe."""
    versions = [*_nvlinks(nvml, gpu)]
    if not versions:
        generation = nvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu)
        return pcie_link(generation, nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu))
    peak_gbps = sum(NVLINK_GBPS.get(version, max(NVLINK_GBPS.values())) for version in versions)
    return Link(
        name=f"{len(versions)} NVLinks, {YIELD:.0%} of their peak",
        gbps=YIELD * peak_gbps,
        latency_us=NVLINK_LATENCY_US,
    )


def pcie_link(generation: int, num_lanes: int) -> Link:
    """PCIe of some generation and width."""
    lane_gbps = LANE_GBPS.get(generation, max(LANE_GBPS.values()))
    return Link(
        name=f"PCIe {generation}.0 x{num_lanes}, {YIELD:.0%} of its peak",
        gbps=YIELD * lane_gbps * num_lanes,
        latency_us=PCIE_LATENCY_US,
    )


def _nvlinks(nvml: Any, gpu: Any) -> Iterator[int]:
    """The version of every active NVLink; NVML raises after the last one."""
    for number in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(gpu, number):
                yield int(nvml.nvmlDeviceGetNvLinkVersion(gpu, number))
        except nvml.NVMLError:
            return
