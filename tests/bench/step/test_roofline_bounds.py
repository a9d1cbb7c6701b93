"""The least time of kernels."""

import pytest

from manyhands_bench.step.roofline import Kernel, Peak, roofline_of

PEAK = Peak(flops_per_s=1e12, bytes_per_s=1e9)
HEAVY = Kernel(flops=4 * 10**9, num_bytes=10**6)
LIGHT = Kernel(flops=0, num_bytes=2 * 10**6)


def test_every_kernel_takes_as_long_as_the_slower_of_both():
    found = roofline_of([HEAVY, LIGHT], PEAK)
    assert found.compute_ms == pytest.approx(4)
    assert found.memory_ms == pytest.approx(3)
    assert found.floor_ms == pytest.approx(4 + 2)
    assert found.bytes_per_update == 3 * 10**6


def test_a_faster_memory_helps_those_that_wait_for_it():
    found = roofline_of([HEAVY, LIGHT], Peak(flops_per_s=1e12, bytes_per_s=2e9))
    assert found.floor_ms == pytest.approx(4 + 1)
