"""The demo as the user asked for it."""

from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.train import ProcessesConfig


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Demo."""

    output_dir: Path | None = None
    """Folder for dataset, run and report; null: outputs/demo/<time>_seed<seed>."""
    seed: int = 0
    """Seed of recording and training; evaluation episodes are always the same."""
    fast: bool = False
    """Record and train just enough to see every stage; the policy learns almost nothing."""
    json: Path | None = None
    """JSON file for the results."""
    launch: ProcessesConfig = field(default_factory=ProcessesConfig)

    def faults(self) -> list[str]:
        """Values the demo cannot run with."""
        processes = self.launch.num_processes
        rules = [
            (self.seed < 0, f"--seed={self.seed} must be at least 0"),
            (
                processes is not None and processes < 1,
                f"--launch.num_processes={processes} must be at least 1",
            ),
        ]
        return [sentence for is_wrong, sentence in rules if is_wrong]
