"""Learning rate schedules, built from a config."""

import math
from collections.abc import Callable

from torch import Tensor
from torch.optim import Optimizer

from manyhands.config.sections.optim import (
    POLYNOMIAL_END_LR,
    ConstantWithWarmupConfig,
    CosineAnnealingWithWarmupConfig,
    CosineDecayWithWarmupConfig,
    DiffuserSchedulerConfig,
    SchedulerConfig,
)
from manyhands.errors import ConfigError

Factor = Callable[[int], float]
"""Multiple of the learning rate at a step, counted from zero."""


class LrSchedule:
    """Learning rates as a function of the step alone, so that resuming needs no history."""

    def __init__(self, optimizer: Optimizer, factor: Factor, scale: float = 1.0) -> None:
        self._optimizer = optimizer
        self._factor = factor
        self.current = [float(group["lr"]) for group in optimizer.param_groups]
        """The current rates."""
        self.base_lrs = [scale * float(group["lr"]) for group in optimizer.param_groups]

    def apply(self, step: int) -> None:
        """Set the rates for the step after `step` finished ones."""
        self.current = self.rates(step)
        for group, rate in zip(self._optimizer.param_groups, self.current, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def rates(self, step: int) -> list[float]:
        """The learning rate of each parameter group."""
        return [base * self._factor(step) for base in self.base_lrs]


def schedule_factor(config: SchedulerConfig | None, num_steps: int, lr: float) -> Factor:
    """The curve of a config for a run of `num_steps` steps; None is a constant one.

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
            raise ConfigError([f"--scheduler.type={config.type} is not implemented"])
    return _warmed_up(config.num_warmup_steps or 0, num_steps, curve)


Curve = Callable[[float], float]
"""Multiple of the learning rate by the fraction of steps done after the warm-up."""


def cosine(share: float) -> float:
    """From one to zero along half a cosine, then zero."""
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, share)))


def polynomial(lr: float) -> Curve:
    """From `lr` down to a fixed rate; of the first power, a straight line."""
    end = POLYNOMIAL_END_LR / lr
    return lambda share: (1 - end) * max(0.0, 1.0 - share) + end


CURVES: dict[str, Curve] = {
    "linear": lambda share: max(0.0, 1.0 - share),
    "cosine": cosine,
    # There is one cycle, hence no restart.
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
        # The cosine counts from the first step, not from the end of the warm-up.
        return (1 - floor) * cosine(step / max(1, num_decay)) + floor

    return factor
