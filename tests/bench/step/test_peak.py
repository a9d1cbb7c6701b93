"""What a device can do at most."""

import pytest
import torch

from manyhands_bench.step import roofline as peak
from manyhands_bench.step.roofline import peak_bytes_per_s, peak_flops_per_s


@pytest.mark.parametrize(("precision", "dtype"), [("no", "float32"), ("bf16", "float32")])
def test_a_cpu_multiplies_some_billions_of_numbers_a_second(precision, dtype, monkeypatch):
    monkeypatch.setitem(peak.SIZES, "cpu", 256)
    assert 1e8 < peak_flops_per_s(torch.device("cpu"), precision, dtype) < 1e14


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_of_the_run_are_multiplied_and_their_operations_counted(dtype, monkeypatch):
    dtypes = []
    monkeypatch.setitem(peak.SIZES, "cpu", 32)
    monkeypatch.setattr(torch, "mm", lambda left, right, out: dtypes.append(left.dtype))
    monkeypatch.setattr(peak, "step_times", lambda work, steps, device: [work(0), 3.0, 2.0][1:])
    name = str(dtype).removeprefix("torch.")
    assert peak_flops_per_s(torch.device("cpu"), "no", name) == 2 * 32**3 / 2.0
    assert {*dtypes} == {dtype}


def test_a_cpu_copies_some_billions_of_bytes_a_second(monkeypatch):
    monkeypatch.setitem(peak.COPIED, "cpu", 1 << 24)
    assert 1e8 < peak_bytes_per_s(torch.device("cpu")) < 1e13
