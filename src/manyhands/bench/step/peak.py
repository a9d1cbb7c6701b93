"""What a device does at most in a second: operations by a matrix product, bytes by a copy."""

from dataclasses import dataclass

import torch

from manyhands.bench.timing import step_times

SIZES = {"cuda": 8192, "cpu": 1024}
WARM_UP, NUM_PRODUCTS = 3, 10
COPIED = {"cuda": 1 << 30, "cpu": 1 << 27}
"""Bytes, of which no cache holds much."""
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "no": torch.float32}


@dataclass(frozen=True)
class Peak:
    """What a device does at most."""

    flops_per_s: float
    bytes_per_s: float


def peak_of(device: torch.device, precision: str, dtype: str) -> Peak:
    """What a device does at most for a run in some numbers."""
    return Peak(peak_flops_per_s(device, precision, dtype), peak_bytes_per_s(device))


def peak_flops_per_s(device: torch.device, precision: str, dtype: str = "float32") -> float:
    """The rate of the fastest of some large products, in the numbers that a run multiplies."""
    number_type = torch.float64 if dtype == "float64" else DTYPES[precision]
    if device.type == "cpu" and precision != "no":
        # Few processors multiply short numbers; what all of them do well is float32.
        number_type = torch.float32
    size = SIZES[device.type]
    # Equal numbers would cost less power than those of a network, and flatter the device.
    block = torch.randn(size, size, device=device).to(number_type)
    out = torch.empty_like(block)

    def multiply(_: int) -> None:
        torch.mm(block, block, out=out)

    step_times(multiply, range(WARM_UP), device)
    return 2 * size**3 / min(step_times(multiply, range(NUM_PRODUCTS), device))


def peak_bytes_per_s(device: torch.device) -> float:
    """The rate of the fastest of some large copies, in bytes read and bytes written."""
    size = COPIED[device.type]
    block = torch.ones(size, dtype=torch.uint8, device=device)
    out = torch.empty_like(block)

    def copy(_: int) -> None:
        out.copy_(block)

    step_times(copy, range(WARM_UP), device)
    return 2 * size / min(step_times(copy, range(NUM_PRODUCTS), device))
