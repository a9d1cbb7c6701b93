"""Optimizers from their configuration, and what they remember."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, optim

from manyhands.config.optim import AdamConfig, AdamWConfig, OptimizerConfig, SgdConfig
from manyhands.errors import CheckpointError, ConfigError
from manyhands.parallel.shards import as_held, is_shard
from manyhands.parallel.stepping import weights_of

FUSED_DEVICES = {"cpu", "cuda"}
"""Where torch updates all weights in one kernel, and skips an overflow without being asked."""


def build_optimizer(config: OptimizerConfig, groups: Iterable[dict[str, Any]]) -> optim.Optimizer:
    """The optimizer a config describes over a network's parameter groups."""
    groups = list(groups)
    # Torch chooses well where nothing is said, and slow kernels where False is.
    settings = asdict(config) | {"fused": can_fuse(config, groups) or None}
    settings.pop("grad_clip_norm")
    match config:
        case AdamWConfig():
            return replayable(optim.AdamW(groups, **settings))
        case AdamConfig():
            return replayable(optim.Adam(groups, **settings))
        case SgdConfig():
            return replayable(with_momentum(optim.SGD(groups, **settings)))
    raise ConfigError([f"--optimizer.type={config.type} is not implemented"])


def can_fuse(config: OptimizerConfig, groups: Iterable[dict[str, Any]]) -> bool:
    """Whether one kernel can update all weights."""
    if isinstance(config, SgdConfig) and config.dampening != 0:
        return False
    weights = [weight for group in groups for weight in group["params"]]
    return all(each.device.type in FUSED_DEVICES and each.is_floating_point() for each in weights)


def is_replayable(optimizer: optim.Optimizer) -> bool:
    """Whether a GPU can make steps by itself again and again, once it was told how."""
    is_fused = all(group["fused"] for group in optimizer.param_groups)
    weights = weights_of(optimizer)
    return is_fused and all(each.is_cuda and not is_shard(each) for each in weights)


def is_plain_adam(optimizer: optim.Optimizer) -> bool:
    """Whether it is Adam as it was published, over weights of one GPU in single precision."""
    return (
        isinstance(optimizer, optim.Adam)
        and is_replayable(optimizer)
        and not any(group["amsgrad"] or group["maximize"] for group in optimizer.param_groups)
        and all(weight.dtype == torch.float32 for weight in weights_of(optimizer))
    )


def replayable(optimizer: optim.Optimizer) -> optim.Optimizer:
    """The optimizer with its learning rates on the GPU, where replayed steps find them."""
    for group in optimizer.param_groups if is_replayable(optimizer) else ():
        group["lr"] = torch.tensor(group["lr"], device=weights_of(optimizer)[0].device)
        group |= {"capturable": True} if "capturable" in group else {}
    return optimizer


def with_momentum(optimizer: optim.SGD) -> optim.SGD:
    """The optimizer with momentum at zero, where fused kernels would leave it unset.

    They make room for it at the first update, and do not fill it if that one is skipped. Without
    dampening the first momentum is the gradient either way.
    """
    for group in optimizer.param_groups:
        if group["fused"] and group["momentum"] != 0:
            for weight in (each for each in group["params"] if each.requires_grad):
                optimizer.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
    return optimizer


def portable_groups(optimizer: optim.Optimizer, rates: Iterable[float]) -> list[dict[str, Any]]:
    """An optimizer's groups at some learning rates, in which kernels play no part.

    So it is in LeRobot's files.
    """
    groups = optimizer.state_dict()["param_groups"]
    plain = {"fused": None} | ({"capturable": False} if "capturable" in groups[0] else {})
    return [{**group, **plain, "lr": rate} for group, rate in zip(groups, rates, strict=True)]


def restore_state(optimizer: optim.Optimizer, saved: dict[str, Any]) -> None:
    """Take over what an optimizer remembers; hyper-parameters stay as they are."""
    check_fits(optimizer, saved)
    weights = weights_of(optimizer)
    state = {
        index: {name: as_held(value, weights[index]) for name, value in values.items()}
        for index, values in saved["state"].items()
    }
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    for weight, values in optimizer.state.items():
        values.update({name: laid_out_as(weight, value) for name, value in values.items()})


def laid_out_as(weight: Tensor, value: Any) -> Any:
    """What an optimizer remembers of a weight, in the weight's order of memory.

    Files know one order only, and fused kernels walk through both side by side.
    """
    if not isinstance(value, Tensor) or value.shape != weight.shape:
        return value
    return torch.empty_like(weight, dtype=value.dtype).copy_(value)


def check_fits(optimizer: optim.Optimizer, saved: dict[str, Any]) -> None:
    """Refuse an optimizer's saved state that belongs to another kind or to other weights."""
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
