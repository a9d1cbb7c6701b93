"""An average of the weights, as the user asked for it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class EmaConfig:
    """Average of the weights over updates (EMA)."""

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

    def faults(self) -> Iterator[str]:
        """Yield values that make no average."""
        decays = {"decay": self.decay, "min_decay": self.min_decay, "max_decay": self.max_decay}
        for name, decay in decays.items():
            if decay is not None and not 0 <= decay <= 1:
                yield f"--ema.{name}={decay} must be at least 0 and at most 1"
        if self.min_decay > self.max_decay:
            yield f"--ema.min_decay={self.min_decay} is above --ema.max_decay={self.max_decay}"
        if self.update_after_step < 0:
            yield f"--ema.update_after_step={self.update_after_step} must be at least 0"
        for name in ("inv_gamma", "power"):
            if not 0 < getattr(self, name) < math.inf:
                yield f"--ema.{name}={getattr(self, name)} must be above 0"
        yield from self._shadowed() if self.decay is not None else ()

    def _shadowed(self) -> Iterator[str]:
        for name in ("inv_gamma", "power", "min_decay", "max_decay"):
            if getattr(self, name) != getattr(EmaConfig, name):
                yield f"--ema.{name} has no effect with the constant --ema.decay={self.decay}"
