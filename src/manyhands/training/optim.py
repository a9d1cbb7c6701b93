"""Optimizers and learning-rate schedules from their configuration."""

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, optim

from manyhands.config.optim import (
    POLYNOMIAL_END_LR,
    AdamConfig,
    AdamWConfig,
    ConstantWithWarmupConfig,
    CosineAnnealingWithWarmupConfig,
    CosineDecayWithWarmupConfig,
    DiffuserSchedulerConfig,
    OptimizerConfig,
    SchedulerConfig,
    SgdConfig,
)
from manyhands.errors import CheckpointError, ConfigError

Factor = Callable[[int], float]
"""Multiple of the learning rate at an update, counted from zero."""

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
            return optim.AdamW(groups, **settings)
        case AdamConfig():
            return optim.Adam(groups, **settings)
        case SgdConfig():
            return with_momentum(optim.SGD(groups, **settings))
    raise ConfigError([f"--optimizer.type={config.type} has no implementation"])


def can_fuse(config: OptimizerConfig, groups: Iterable[dict[str, Any]]) -> bool:
    """Whether one kernel can update all weights."""
    if isinstance(config, SgdConfig) and config.dampening != 0:
        return False
    weights = [weight for group in groups for weight in group["params"]]
    return all(each.device.type in FUSED_DEVICES and each.is_floating_point() for each in weights)


def with_momentum(optimizer: optim.SGD) -> optim.SGD:
    """The optimizer with momentum at zero, where fused kernels would leave it unset.

    They make room for it at the first update, and do not fill it if that one is skipped. Without
    dampening the first momentum is the gradient either way.
    """
    for group in optimizer.param_groups:
        if group["fused"] and group["momentum"] != 0:
            for weight in group["params"]:
                optimizer.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
    return optimizer


def portable_state(optimizer: optim.Optimizer) -> dict[str, Any]:
    """An optimizer's state; which kernels compute is not part of it, as in LeRobot's files."""
    state = optimizer.state_dict()
    groups = [{**group, "fused": None} for group in state["param_groups"]]
    return {**state, "param_groups": groups}


def restore_state(optimizer: optim.Optimizer, saved: dict[str, Any]) -> None:
    """Take over what an optimizer remembers; hyper-parameters stay as they are."""
    check_fits(optimizer, saved)
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": saved["state"], "param_groups": groups})
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
            "the checkpoint was made with another optimizer; resume with its --optimizer.type"
        )
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    for index, values in saved["state"].items():
        fits = index < len(parameters) and all(
            value.ndim == 0 or value.shape == parameters[index].shape for value in values.values()
        )
        if not fits:
            raise CheckpointError(
                f"the checkpoint's optimizer state {index} fits no weight of this policy: it was "
                "saved by a run of another policy"
            )


class Schedule:
    """Learning rates as a function of the update alone, so that resuming needs no history."""

    def __init__(self, optimizer: optim.Optimizer, factor: Factor) -> None:
        self._optimizer = optimizer
        self._factor = factor
        self.base_lrs: list[float] = [group["lr"] for group in optimizer.param_groups]

    def apply(self, step: int) -> float:
        """Set the rates for the update after `step` finished ones; return the first group's."""
        rates = self.rates(step)
        for group, rate in zip(self._optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        return rates[0]

    def rates(self, step: int) -> list[float]:
        """The learning rate of each parameter group."""
        return [base * self._factor(step) for base in self.base_lrs]


def schedule_factor(config: SchedulerConfig | None, num_steps: int, lr: float) -> Factor:
    """The curve a config describes for a run of `num_steps` updates; none keeps it at one.

    `lr` is the optimizer's own learning rate, for the one curve that ends at an absolute rate.
    """
    match config:
        case None | DiffuserSchedulerConfig(name="constant"):
            return lambda step: 1.0
        case DiffuserSchedulerConfig(name=name):
            curve = polynomial(lr) if name == "polynomial" else CURVES[name]
        case ConstantWithWarmupConfig():
            curve = CURVES["constant_with_warmup"]
        case CosineAnnealingWithWarmupConfig():
            curve = CURVES["cosine"]
        case CosineDecayWithWarmupConfig():
            return _cosine_decay(config, num_steps)
        case _:
            raise ConfigError([f"--scheduler.type={config.type} has no implementation"])
    return _warmed_up(config.num_warmup_steps or 0, num_steps, curve)


Curve = Callable[[float], float]
"""Multiple of the learning rate by the share of the updates after the warm-up that are done."""


def cosine(share: float) -> float:
    """From one to zero along half a wave, where it stays."""
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, share)))


def polynomial(lr: float) -> Curve:
    """From `lr` down to a fixed rate; of the first power, a straight line."""
    end = POLYNOMIAL_END_LR / lr
    return lambda share: (1 - end) * max(0.0, 1.0 - share) + end


CURVES: dict[str, Curve] = {
    "linear": lambda share: max(0.0, 1.0 - share),
    "cosine": cosine,
    # There is one cycle, so that nothing restarts.
    "cosine_with_restarts": cosine,
    "constant_with_warmup": lambda share: 1.0,
}


def _warmed_up(num_warmup: int, num_steps: int, curve: Curve) -> Factor:
    def factor(step: int) -> float:
        if step < num_warmup:
            return step / max(1, num_warmup)
        return curve((step - num_warmup) / max(1, num_steps - num_warmup))

    return factor


def _cosine_decay(config: CosineDecayWithWarmupConfig, num_steps: int) -> Factor:
    num_warmup, num_decay = config.num_warmup_steps or 0, config.num_decay_steps
    if num_steps < num_decay:
        num_warmup = int(num_warmup * num_steps / num_decay)
        num_decay = num_steps
    floor = config.decay_lr / config.peak_lr

    def factor(step: int) -> float:
        if step < num_warmup:
            return 1 + (1 / (num_warmup + 1) - 1) * (1 - step / num_warmup)
        # The cosine counts from the first update, not from the end of the warm-up.
        return (1 - floor) * cosine(step / max(1, num_decay)) + floor

    return factor
