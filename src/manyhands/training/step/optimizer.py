"""Optimizers and their state, built from a config."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, optim

from manyhands.config.sections.optim import AdamConfig, AdamWConfig, OptimizerConfig, SgdConfig
from manyhands.errors import CheckpointError, ConfigError
from manyhands.parallel.optimizer_step import weights_of
from manyhands.parallel.sharded_tensors import is_shard, shard_like

FUSED_DEVICES = {"cpu", "cuda"}
"""Devices with fused optimizers, which also skip steps with an overflow."""
PLAIN_KERNELS = {"fused": None, "capturable": False}
"""Kernel settings as files have them, whatever kernels a run uses."""


def build_optimizer(config: OptimizerConfig, groups: Iterable[dict[str, Any]]) -> optim.Optimizer:
    """Build the optimizer of a config for parameter groups."""
    groups = list(groups)
    # With None torch chooses fast kernels, with False slow ones.
    settings = asdict(config) | {"fused": can_fuse(config, groups) or None}
    settings.pop("grad_clip_norm")
    match config:
        case AdamWConfig():
            return make_capturable(optim.AdamW(groups, **settings))
        case AdamConfig():
            return make_capturable(optim.Adam(groups, **settings))
        case SgdConfig():
            return make_capturable(with_momentum(optim.SGD(groups, **settings)))
    raise ConfigError([f"--optimizer.type={config.type} is not implemented"])


def can_fuse(config: OptimizerConfig, groups: Iterable[dict[str, Any]]) -> bool:
    """Whether a fused optimizer supports all weights."""
    if isinstance(config, SgdConfig) and config.dampening != 0:
        return False
    weights = [weight for group in groups for weight in group["params"]]
    return all(each.device.type in FUSED_DEVICES and each.is_floating_point() for each in weights)


def is_capturable(optimizer: optim.Optimizer) -> bool:
    """Whether a CUDA graph can replay the steps of the optimizer."""
    is_fused = all(group["fused"] for group in optimizer.param_groups)
    weights = weights_of(optimizer)
    return is_fused and all(each.is_cuda and not is_shard(each) for each in weights)


def is_plain_adam(optimizer: optim.Optimizer) -> bool:
    """Whether it is plain Adam on float32 weights of one GPU."""
    return (
        isinstance(optimizer, optim.Adam)
        and is_capturable(optimizer)
        and not any(group["amsgrad"] or group["maximize"] for group in optimizer.param_groups)
        and all(weight.dtype == torch.float32 for weight in weights_of(optimizer))
    )


def make_capturable(optimizer: optim.Optimizer) -> optim.Optimizer:
    """The optimizer with learning rates on the GPU, where graph replays read them."""
    for group in optimizer.param_groups if is_capturable(optimizer) else ():
        group["lr"] = torch.tensor(group["lr"], device=weights_of(optimizer)[0].device)
        group |= {"capturable": True} if "capturable" in group else {}
    return optimizer


def with_momentum(optimizer: optim.SGD) -> optim.SGD:
    """The optimizer with momentum initialized to zero, where fused kernels would not.

    They allocate it at the first step, and leave it uninitialized if that step is skipped. Without
    dampening the first momentum is the gradient either way.
    """
    for group in optimizer.param_groups:
        if group["fused"] and group["momentum"] != 0:
            for weight in (each for each in group["params"] if each.requires_grad):
                optimizer.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
    return optimizer


def portable_groups(optimizer: optim.Optimizer, rates: Iterable[float]) -> list[dict[str, Any]]:
    """Parameter groups with learning rates, without kernel settings, as in LeRobot's files."""
    groups = optimizer.state_dict()["param_groups"]
    plain = {name: value for name, value in PLAIN_KERNELS.items() if name in groups[0]}
    return [{**group, **plain, "lr": rate} for group, rate in zip(groups, rates, strict=True)]


def restore_state(optimizer: optim.Optimizer, saved: dict[str, Any]) -> None:
    """Load the state of an optimizer; hyper-parameters stay as they are."""
    check_fits(optimizer, saved)
    weights = weights_of(optimizer)
    state = {
        index: {name: shard_like(value, weights[index]) for name, value in values.items()}
        for index, values in saved["state"].items()
    }
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    for weight, values in optimizer.state.items():
        values.update({name: match_memory_format(weight, value) for name, value in values.items()})


def match_memory_format(weight: Tensor, value: Any) -> Any:
    """Optimizer state of a weight in the memory layout of the weight.

    Files store one layout only, and fused kernels need both in the same layout.
    """
    if not isinstance(value, Tensor) or value.shape != weight.shape:
        return value
    return torch.empty_like(weight, dtype=value.dtype).copy_(value)


def check_fits(optimizer: optim.Optimizer, saved: dict[str, Any]) -> None:
    """Reject saved state of another optimizer type or of other weights."""
    settings = [
        set(group) - {"initial_lr"} for group in (optimizer.param_groups + saved["param_groups"])
    ]
    if any(names != settings[0] for names in settings):
        raise CheckpointError(
            "the checkpoint has the state of another optimizer. Resume with its --optimizer.type"
        )
    parameters = weights_of(optimizer)
    for index, values in saved["state"].items():
        fits = index < len(parameters) and all(
            value.ndim == 0 or value.shape == parameters[index].shape for value in values.values()
        )
        if not fits:
            raise CheckpointError(
                f"the checkpoint's optimizer state {index} matches no parameter of this policy: it "
                "belongs to another policy"
            )
