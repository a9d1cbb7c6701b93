"""Optimizers and learning-rate schedules from their configuration."""

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from torch import optim

from manyhands.config.optim import (
    AdamConfig,
    AdamWConfig,
    ConstantWithWarmupConfig,
    CosineDecayWithWarmupConfig,
    DiffuserSchedulerConfig,
    OptimizerConfig,
    SchedulerConfig,
    SgdConfig,
)
from manyhands.errors import ConfigError

Factor = Callable[[int], float]
"""Multiple of the learning rate at an update, counted from zero."""


def build_optimizer(config: OptimizerConfig, groups: Iterable[dict[str, Any]]) -> optim.Optimizer:
    """The optimizer a config describes over a network's parameter groups."""
    settings = asdict(config)
    settings.pop("grad_clip_norm")
    match config:
        case AdamWConfig():
            return optim.AdamW(groups, **settings)
        case AdamConfig():
            return optim.Adam(groups, **settings)
        case SgdConfig():
            return optim.SGD(groups, **settings)
    raise ConfigError([f"--optimizer.type={config.type} has no implementation"])


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


def schedule_factor(config: SchedulerConfig | None, num_steps: int) -> Factor:
    """The curve a config describes for a run of `num_steps` updates; none keeps it at one."""
    match config:
        case None:
            return lambda step: 1.0
        case DiffuserSchedulerConfig():
            return _warmed_up(config.num_warmup_steps or 0, num_steps, CURVES[config.name])
        case ConstantWithWarmupConfig():
            return _warmed_up(config.num_warmup_steps or 0, num_steps, CURVES["constant"])
        case CosineDecayWithWarmupConfig():
            return _cosine_decay(config, num_steps)
    raise ConfigError([f"--scheduler.type={config.type} has no implementation"])


CURVES: dict[str, Callable[[float], float]] = {
    "cosine": lambda share: max(0.0, 0.5 * (1.0 + math.cos(math.pi * share))),
    "linear": lambda share: max(0.0, 1.0 - share),
    "constant": lambda share: 1.0,
}


def _warmed_up(num_warmup: int, num_steps: int, curve: Callable[[float], float]) -> Factor:
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
        cosine = 0.5 * (1 + math.cos(math.pi * min(step, num_decay) / max(1, num_decay)))
        return (1 - floor) * cosine + floor

    return factor
