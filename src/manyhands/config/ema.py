"""An average of the weights, as the user asked for it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class EmaConfig:
    """Average of the weights over updates (EMA)."""

    enable: bool = False
    """Keep an exponential moving average of the weights; saved as pretrained_model_ema."""
    decay: float | None = None
    """Share of the average that stays at each update; null lets it rise with the updates."""
    update_after_step: int = 0
    """Updates over which the average is the weights themselves."""
    inv_gamma: float = 1.0
    """Updates per unit of the rise: after t updates 1 - (1 + t / inv_gamma) ^ -power stays."""
    power: float = 0.75
    """How fast the share rises."""
    min_decay: float = 0.0
    """Least share."""
    max_decay: float = 0.9999
    """Largest share."""
    use_for_eval: bool = True
    """Measure the held-out loss of the average too."""

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
