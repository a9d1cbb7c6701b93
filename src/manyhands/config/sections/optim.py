"""Optimizers, learning-rate schedules and EMA, by LeRobot's types and defaults."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from manyhands.config.schema.rules import at_least

Bounds = dict[str, tuple[Any, bool]]  # Values by name, and whether each is sound.


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """Base config of an optimizer; `--optimizer.type` selects the concrete class."""

    type: ClassVar[str]

    lr: float = 1e-3
    """Learning rate."""
    weight_decay: float = 0.0
    """Weight decay."""
    grad_clip_norm: float = 10.0
    """Maximum gradient norm for clipping; 0: no clipping."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        bounds = {
            "lr": (self.lr, 0 < self.lr < math.inf),
            "weight_decay": (self.weight_decay, 0 <= self.weight_decay < math.inf),
            "grad_clip_norm": (self.grad_clip_norm, self.grad_clip_norm >= 0),
        } | self._own_bounds()
        return [
            f"--optimizer.{name}={value} is out of range"
            for name, (value, is_sound) in bounds.items()
            if not is_sound
        ]

    def _own_bounds(self) -> Bounds:
        return {}


@dataclass(frozen=True, kw_only=True)
class AdamConfig(OptimizerConfig):
    """Adam; weight decay is added to the gradient."""

    type: ClassVar[str] = "adam"

    betas: tuple[float, float] = (0.9, 0.999)
    """Adam betas."""
    eps: float = 1e-8
    """Adam epsilon."""

    def _own_bounds(self) -> Bounds:
        are_sound = all(0 <= beta < 1 for beta in self.betas)
        return {"betas": (self.betas, are_sound), "eps": (self.eps, self.eps >= 0)}


@dataclass(frozen=True, kw_only=True)
class AdamWConfig(AdamConfig):
    """AdamW; weight decay is decoupled from the gradient."""

    type: ClassVar[str] = "adamw"

    weight_decay: float = 1e-2
    """Weight decay."""


@dataclass(frozen=True, kw_only=True)
class SgdConfig(OptimizerConfig):
    """Stochastic gradient descent."""

    type: ClassVar[str] = "sgd"

    momentum: float = 0.0
    """Momentum."""
    dampening: float = 0.0
    """Dampening of the momentum."""
    nesterov: bool = False
    """Nesterov momentum."""

    def _own_bounds(self) -> Bounds:
        plain = self.momentum > 0 and self.dampening == 0
        return {
            "momentum": (self.momentum, 0 <= self.momentum < math.inf),
            "nesterov": (self.nesterov, not self.nesterov or plain),
        }


@dataclass(frozen=True, kw_only=True)
class SchedulerConfig:
    """Base config of a schedule; `--scheduler.type` selects the concrete class."""

    type: ClassVar[str]

    num_warmup_steps: int | None = None
    """Warm-up steps."""


@dataclass(frozen=True, kw_only=True)
class DiffuserSchedulerConfig(SchedulerConfig):
    """Warm-up, then the named curve down to the last step."""

    type: ClassVar[str] = "diffuser"

    name: str = "cosine"
    """linear, cosine, cosine_with_restarts, polynomial, constant or constant_with_warmup."""


@dataclass(frozen=True, kw_only=True)
class ConstantWithWarmupConfig(SchedulerConfig):
    """Warm-up, then constant."""

    type: ClassVar[str] = "constant_with_warmup"

    num_warmup_steps: int | None = 1000
    """Warm-up steps."""


@dataclass(frozen=True, kw_only=True)
class CosineAnnealingWithWarmupConfig(SchedulerConfig):
    """Warm-up, then a cosine down to zero at the last step."""

    type: ClassVar[str] = "cosine_annealing_with_warmup"


@dataclass(frozen=True, kw_only=True)
class CosineDecayWithWarmupConfig(SchedulerConfig):
    """Warm-up to `peak_lr`, then a cosine down to `decay_lr`."""

    type: ClassVar[str] = "cosine_decay_with_warmup"

    num_warmup_steps: int | None = 1000
    """Warm-up steps."""
    num_decay_steps: int = 30_000
    """Step at which the cosine ends; scaled down with the warm-up if --steps is smaller."""
    peak_lr: float = 1e-4
    """Learning rate after the warm-up."""
    decay_lr: float = 1e-5
    """Learning rate at the end."""


SCHEDULE_CURVES = (
    "linear",
    "cosine",
    "cosine_with_restarts",
    "polynomial",
    "constant",
    "constant_with_warmup",
)
POLYNOMIAL_END_LR = 1e-7  # Learning rate that the polynomial curve ends at.

OPTIMIZER_TYPES: dict[str, type[OptimizerConfig]] = {
    config.type: config for config in (AdamConfig, AdamWConfig, SgdConfig)
}
SCHEDULER_TYPES: dict[str, type[SchedulerConfig]] = {
    config.type: config
    for config in (
        DiffuserSchedulerConfig,
        ConstantWithWarmupConfig,
        CosineAnnealingWithWarmupConfig,
        CosineDecayWithWarmupConfig,
    )
}


@dataclass(frozen=True, kw_only=True)
class EmaConfig:
    """Exponential moving average of the weights (EMA)."""

    enable: bool = False
    """Save an exponential moving average (EMA) of the weights as pretrained_model_ema."""
    decay: float | None = None
    """EMA decay per step; null: increases with the step, by the schedule below."""
    update_after_step: int = 0
    """Steps before averaging starts; until then the EMA equals the weights."""
    inv_gamma: float = 1.0
    """Inverse gamma of the decay schedule: decay = 1 - (1 + t / inv_gamma) ^ -power at step t."""
    power: float = 0.75
    """Power of the decay schedule."""
    min_decay: float = 0.0
    """Minimum decay."""
    max_decay: float = 0.9999
    """Maximum decay."""
    use_for_eval: bool = True
    """Also measure the held-out loss of the EMA."""

    def decay_at(self, step: int) -> float:
        """The decay at a step, counted from one.

        The first step after `update_after_step` still copies the weights, as in diffusers.
        """
        age = step - self.update_after_step - 1
        if age <= 0:
            return 0.0
        if self.decay is not None:
            return self.decay
        rising = 1 - math.pow(1 + age / self.inv_gamma, -self.power)
        return max(self.min_decay, min(self.max_decay, rising))

    def faults(self) -> Iterator[str]:
        """Yield invalid values."""
        decays = {"decay": self.decay, "min_decay": self.min_decay, "max_decay": self.max_decay}
        for name, decay in decays.items():
            if decay is not None and not 0 <= decay <= 1:
                yield f"--ema.{name}={decay} must be at least 0 and at most 1"
        if self.min_decay > self.max_decay:
            yield f"--ema.min_decay={self.min_decay} is above --ema.max_decay={self.max_decay}"
        yield from at_least(self, "ema.", 0, "update_after_step")
        for name in ("inv_gamma", "power"):
            if not 0 < getattr(self, name) < math.inf:
                yield f"--ema.{name}={getattr(self, name)} must be above 0"
        for name in ("inv_gamma", "power", "min_decay", "max_decay"):
            if self.decay is not None and getattr(self, name) != getattr(EmaConfig, name):
                yield f"--ema.{name} has no effect with the constant --ema.decay={self.decay}"
