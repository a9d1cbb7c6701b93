"""Updates that are timed, as the user asked for them."""

from dataclasses import dataclass
from pathlib import Path

from manyhands.config.step import STEP_MODES

SHAPES = ("cameras", "image_size", "state_dim", "action_dim")
"""Flags that say what made-up data looks like."""


@dataclass(frozen=True, kw_only=True)
class BenchStepConfig:
    """Measurement."""

    cameras: int | None = None
    """Without a dataset: color cameras of the made-up one, 1 by default; 0 for none."""
    image_size: tuple[int, int] | None = None
    """Without a dataset: height and width of its images, [480, 640] by default."""
    state_dim: int | None = None
    """Without a dataset: numbers in the robot's state, 14 by default."""
    action_dim: int | None = None
    """Without a dataset: numbers in an action, 14 by default."""
    num_steps: int = 60
    """Updates that are timed; their median counts."""
    warm_up: int = 10
    """Updates before those."""
    compare: list[str] | None = None
    """Modes to measure in one run, as [eager,graph,compile]; null takes that of --step.mode."""
    with_loader: bool = False
    """Train from the real loader too, and tell what share of the speed is left."""
    against: Path | None = None
    """Python of an environment with LeRobot, whose updates are measured in the same run."""
    json: Path | None = None
    """File to write the results to."""

    @property
    def named_shapes(self) -> list[str]:
        """The flags about made-up data that were given."""
        return [name for name in SHAPES if getattr(self, name) is not None]

    def faults(self) -> list[str]:
        """Values that nothing can be measured with."""
        modes, size = self.compare, self.image_size
        strange = [mode for mode in modes or () if mode not in STEP_MODES]
        counts = {"cameras": 0, "state_dim": 1, "action_dim": 1, "num_steps": 1, "warm_up": 1}
        given = {name: getattr(self, name) for name in counts}
        rules = [
            *(
                (
                    value is not None and value < counts[name],
                    f"--{name}={value} must be at least {counts[name]}",
                )
                for name, value in given.items()
            ),
            (
                size is not None and min(size) < 1,
                f"--image_size={list(size or ())} must be two positive sizes",
            ),
            (modes == [], "--compare=[] leaves nothing to measure; leave it out"),
            (
                len(set(modes or ())) < len(modes or ()),
                f"--compare={modes} must be different modes",
            ),
            (
                bool(strange),
                f"--compare={modes}: {strange[:1]} is not one of {', '.join(STEP_MODES)}",
            ),
            (
                self.against is not None and not self.against.is_file(),
                f"--against={self.against} is not the file of a Python",
            ),
        ]
        return [sentence for is_wrong, sentence in rules if is_wrong]
