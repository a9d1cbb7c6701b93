"""The most operations a second that a device makes, by a matrix product."""

import torch

from manyhands.bench.timing import step_times

SIZES = {"cuda": 8192, "cpu": 1024}
WARM_UP, NUM_PRODUCTS = 3, 10
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "no": torch.float32}


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
