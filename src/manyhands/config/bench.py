"""Measurements as the user asked for them; all other flags are those of training."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class BenchLoaderConfig:
    """Measurement."""

    seconds: float = 8.0
    """How long each way of loading is measured."""
    epochs: int = 0
    """Epochs read to see whether memory grows; 0 for none."""
    against: Path | None = None
    """Python of an environment with LeRobot, whose loader is measured in the same run."""
    json: Path | None = None
    """File to write the results to."""

    def faults(self) -> list[str]:
        """Values that nothing can be measured with."""
        rules = [
            (not 0 < self.seconds < 1e6, f"--seconds={self.seconds} must be above 0"),
            (self.epochs < 0, f"--epochs={self.epochs} must be at least 0"),
            (
                self.against is not None and not self.against.is_file(),
                f"--against={self.against} is not the file of a Python",
            ),
        ]
        return [sentence for is_wrong, sentence in rules if is_wrong]
