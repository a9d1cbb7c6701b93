"""In which precision matrix products are computed."""

import torch

from manyhands.config.launch.launcher import Launcher
from manyhands.config.train import TrainConfig
from manyhands.errors import EnvironmentFault

CPU = torch.device("cpu")
AUTOCAST = {"no": None, "bf16": torch.bfloat16, "fp16": torch.float16}
"""The types of matrix products by precision; None for those of the weights."""


def resolve_precision(config: TrainConfig, launcher: Launcher, device: torch.device = CPU) -> str:
    """The precision from a flag, the launcher or --policy.use_amp, else the device default."""
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return preferred_precision(config, launcher, has_bf16)


def has_fast_bf16() -> bool:
    """Whether this CPU multiplies in bf16 itself."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def preferred_precision(config: TrainConfig, launcher: Launcher, has_bf16: bool) -> str:
    """The precision of a run on a device with or without bf16 support."""
    precision = config.accelerator.mixed_precision or launcher.mixed_precision
    if precision is not None:
        return precision
    policy = config.policy
    if policy is None or config.dtype != "float32":
        return "no"
    return "bf16" if policy.use_amp or (policy.trains_in_bf16 and has_bf16) else "no"


def check_precision(precision: str, config: TrainConfig, device: torch.device) -> None:
    """Reject a precision that the device lacks or that contradicts --dtype."""
    if precision == "fp16" and device.type == "cpu":
        raise EnvironmentFault(
            "fp16 needs a GPU, but the device is the CPU. Use --accelerator.mixed_precision=no"
        )
    if precision != "no" and config.dtype == "float64":
        raise EnvironmentFault(
            f"the launcher asks for {precision}, which contradicts --dtype=float64. Use only one "
            "of them"
        )
