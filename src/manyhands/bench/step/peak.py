"""Peak rates of a device: FLOPs by a matmul, bytes by a copy."""

from dataclasses import dataclass

import torch

from manyhands.bench.timing import step_times

SIZES = {"cuda": 8192, "cpu": 1024}
WARM_UP, NUM_PRODUCTS = 3, 10
COPIED = {"cuda": 1 << 30, "cpu": 1 << 27}
"""Bytes, more than caches hold."""
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "no": torch.float32}


@dataclass(frozen=True)
class Peak:
    """Peak rates of a device."""

    flops_per_s: float
    bytes_per_s: float


def peak_of(device: torch.device, precision: str, dtype: str) -> Peak:
    """Peak rates of a device in the precision of a run."""
    return Peak(peak_flops_per_s(device, precision, dtype), peak_bytes_per_s(device))


def peak_flops_per_s(device: torch.device, precision: str, dtype: str = "float32") -> float:
    """The rate of the fastest of several large matmuls, in the precision of a run."""
    number_type = torch.float64 if dtype == "float64" else DTYPES[precision]
    if device.type == "cpu" and precision != "no":
        # Few CPUs have fast bf16 matmuls; all have fast float32.
        number_type = torch.float32
    size = SIZES[device.type]
    # Equal values need less power than real ones, and would raise the rate.
    block = torch.randn(size, size, device=device).to(number_type)
    out = torch.empty_like(block)

    def multiply(_: int) -> None:
        torch.mm(block, block, out=out)

    step_times(multiply, range(WARM_UP), device)
    return 2 * size**3 / min(step_times(multiply, range(NUM_PRODUCTS), device))


def peak_bytes_per_s(device: torch.device) -> float:
    """The rate of the fastest of several large copies, in bytes read and written."""
    size = COPIED[device.type]
    block = torch.ones(size, dtype=torch.uint8, device=device)
    out = torch.empty_like(block)

    def copy(_: int) -> None:
        out.copy_(block)

    step_times(copy, range(WARM_UP), device)
    return 2 * size / min(step_times(copy, range(NUM_PRODUCTS), device))
