"""Updates that are timed, as the user asked for them."""

from dataclasses import dataclass
from pathlib import Path

from manyhands.config.made_up import MadeUpConfig
from manyhands.config.step import STEP_MODES


@dataclass(frozen=True, kw_only=True)
class BenchStepConfig(MadeUpConfig):
    """Measurement."""

    num_steps: int = 60
    """Timed steps; the median is reported."""
    warm_up: int = 10
    """Warm-up steps."""
    compare: list[str] | None = None
    """Step modes to measure in one run, as [eager,graph,compile]; null: that of --step.mode."""
    with_loader: bool = False
    """Also train from the real loader and report the remaining fraction of the speed."""
    against: Path | None = None
    """Python of an environment with LeRobot; its steps are measured in the same run."""
    json: Path | None = None
    """JSON file for the results."""

    def faults(self) -> list[str]:
        """Values that nothing can be measured with."""
        modes = self.compare
        strange = [mode for mode in modes or () if mode not in STEP_MODES]
        counts = {"num_steps": self.num_steps, "warm_up": self.warm_up}
        rules = [
            *(
                (value < 1, f"--{name}={value} must be at least 1")
                for name, value in counts.items()
            ),
            (modes == [], "--compare=[] leaves nothing to measure. Remove it"),
            (
                len(set(modes or ())) < len(modes or ()),
                f"--compare={modes} must be distinct modes",
            ),
            (
                bool(strange),
                f"--compare={modes}: {strange[:1]} is not one of {', '.join(STEP_MODES)}",
            ),
            (
                self.against is not None and not self.against.is_file(),
                f"--against={self.against} is not a Python executable",
            ),
        ]
        return [*super().faults(), *(sentence for is_wrong, sentence in rules if is_wrong)]
