"""What slows or harms a run, which flag helps, and what that gains."""

import math
from dataclasses import dataclass

WARNING = "warning"
NOTE = "note"

GOOD_UTILIZATION = 0.8
POOR_UTILIZATION = 0.5
"""Bands of GPU utilization: good from 80 %, poor below 50 %, fair between."""

MIN_SHARE = 0.1
"""Fraction of the time below which a phase is not worth a flag: at most 1.1x could be gained."""
LARGE_SHARE = 0.25
"""Fraction from which a phase is a warning: a third more speed is in it."""

KINDS = {
    "decode_bound": "data loading",
    "launch_bound": "GPU utilization",
    "communication_bound": "communication",
    "checkpoint_bound": "checkpoints",
    "straggler": "slow ranks",
    "memory_nearly_full": "memory",
    "lr_too_high": "learning rate",
    "loss_oscillating": "loss oscillation",
    "loss_diverged": "divergence",
    "loss_spiking": "loss spikes",
    "overfitting": "overfitting",
}
"""Every kind of problem, in words."""


@dataclass(frozen=True)
class Diagnosis:
    """One problem of a run."""

    kind: str
    severity: str
    """`warning`: costs much time or harms the result; `note`: worth knowing."""
    text: str
    remedy: str
    """The flags to change."""
    gain: str
    """What the remedy is expected to change, computed from the measurements of the run."""

    def __str__(self) -> str:
        return f"{self.severity.upper()}: {self.text}. {self.remedy} ({self.gain})"


def utilization_band(utilization: float) -> str:
    """The band of a GPU utilization between 0 and 1."""
    if utilization >= GOOD_UTILIZATION:
        return "good"
    return "fair" if utilization >= POOR_UTILIZATION else "poor"


def speed_up(share: float, most: float = math.inf) -> str:
    """The speed-up if a share of the time were saved, by what gains no more than `most`."""
    return f"up to {min(most, 1 / (1 - min(share, 0.99))):.1f}x"


def milliseconds(seconds: float) -> str:
    """A short time: 3.4 ms, 68 ms, 1,200 ms."""
    number = 1e3 * seconds
    return f"{number:,.0f} ms" if number >= 10 else f"{number:.2g} ms"


def severity_of(share: float) -> str:
    """How severe it is to lose a share of the time."""
    return WARNING if share >= LARGE_SHARE else NOTE
