"""What a device can do at most."""

import pytest
import torch
from manyhands_bench.step import roofline as peak
from manyhands_bench.step.roofline import peak_bytes_per_s, peak_flops_per_s


@pytest.mark.parametrize(("precision", "dtype"), [("no", "float32"), ("bf16", "float32")])
def test_a_cpu_multiplies_some_billions_of_numbers_a_second(precision, dtype, monkeypatch):
    monkeypatch.setitem(peak.SIZES, "cpu", 256)
    assert 1e8 < peak_flops_per_s(torch.device("cpu"), precision, dtype) < 1e14


def test_double_numbers_are_no_faster(monkeypatch):
    monkeypatch.setitem(peak.SIZES, "cpu", 384)
    rates = [peak_flops_per_s(torch.device("cpu"), "no", kind) for kind in ("float32", "float64")]
    # Other programs may have kept the cores busy during one of the two.
    assert rates[1] < 1.2 * rates[0]


def test_a_cpu_copies_some_billions_of_bytes_a_second(monkeypatch):
    monkeypatch.setitem(peak.COPIED, "cpu", 1 << 24)
    assert 1e8 < peak_bytes_per_s(torch.device("cpu")) < 1e13
