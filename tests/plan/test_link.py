"""Links, as usual and as told."""

from types import SimpleNamespace

import pytest

from manyhands.plan.link import (
    ETHERNET,
    FAST_ETHERNET,
    LOOPBACK,
    link_between_gpus,
    link_of_gpu,
    usual_link,
)


class NvmlError(Exception):
    """What the driver's library says of links that a GPU does not have."""


def driver(num_links, version, num_off=0):
    """The driver's library, as it answers for a GPU."""

    def state(_gpu, number):
        if number >= num_links:
            raise NvmlError
        return int(number >= num_off)

    return SimpleNamespace(
        NVML_NVLINK_MAX_LINKS=36,
        NVMLError=NvmlError,
        nvmlDeviceGetNvLinkState=state,
        nvmlDeviceGetNvLinkVersion=lambda _gpu, _number: version,
        nvmlDeviceGetMaxPcieLinkGeneration=lambda _gpu: 4,
        nvmlDeviceGetMaxPcieLinkWidth=lambda _gpu: 16,
    )


def test_nvlinks_in_use_add_up():
    # Eighteen links of 25 GB/s in each direction are the 900 GB/s that an H100 is sold with.
    assert link_of_gpu(driver(18, 6), None).gbps == pytest.approx(0.8 * 450 * 8)
    assert link_of_gpu(driver(18, 6, num_off=6), None).name.startswith("12 NVLinks")


def test_without_nvlink_gpus_meet_over_pcie():
    link = link_of_gpu(driver(0, 0), None)
    assert link.name.startswith("PCIe 4.0 x16") and link.gbps == pytest.approx(0.8 * 252)


def test_processes_beyond_this_machine_are_reached_by_ethernet():
    assert usual_link(False, 2, capacity=2) is LOOPBACK
    assert usual_link(False, 4, capacity=2) is ETHERNET
    assert usual_link(True, 16, capacity=2) is FAST_ETHERNET


def test_there_is_always_some_link_between_gpus():
    assert link_between_gpus().gbps > 0
