"""The most memory that was taken."""

import torch

from manyhands_bench.step.row import forget_peak, peak_bytes

CPU = torch.device("cpu")


def test_what_was_taken_counts_after_it_was_given_back():
    before = peak_bytes(CPU)
    block = torch.ones((before + (64 << 20)) // 4)
    del block
    assert peak_bytes(CPU) >= before + (32 << 20)


def test_a_cpu_cannot_forget():
    before = peak_bytes(CPU)
    forget_peak(CPU)
    assert peak_bytes(CPU) >= before
