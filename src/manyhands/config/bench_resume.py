"""Kills that runs must survive, as the user asked for them."""

from dataclasses import dataclass
from pathlib import Path

POLICIES = ("act", "diffusion")
STRATEGIES = ("single", "ddp", "fsdp")
CASES = tuple(f"{policy}-{strategy}" for policy in POLICIES for strategy in STRATEGIES)
"""Runs that can be killed: every policy in every strategy."""


@dataclass(frozen=True, kw_only=True)
class BenchResumeConfig:
    """Measurement."""

    kills: int = 12
    """Number of kill -9, over all cases; 0: none."""
    cases: list[str] | None = None
    """Runs to kill, as [act-ddp]; null: act and diffusion with every strategy."""
    seed: int = 0
    """Seed that chooses the processes to kill and the moments."""
    saves: int = 9
    """Saves of 500 MB to time, asynchronous and synchronous each; 0: none."""
    folder: Path | None = None
    """New folder for all runs; null: a temporary one, removed unless a run fails."""
    json: Path | None = None
    """JSON file for the results."""

    def faults(self) -> list[str]:
        """Values that nothing can be measured with."""
        strange = [name for name in self.cases or () if name not in CASES]
        rules = [
            (self.kills < 0, f"--kills={self.kills} must be at least 0"),
            (self.saves < 0, f"--saves={self.saves} must be at least 0"),
            (self.cases == [], "--cases=[] leaves nothing to kill. Remove it, or set --kills=0"),
            (
                bool(strange),
                f"--cases={self.cases}: {strange[:1]} is not one of {', '.join(CASES)}",
            ),
            (
                self.folder is not None and self.folder.exists(),
                f"--folder={self.folder} already exists. Choose a new folder",
            ),
        ]
        return [sentence for is_wrong, sentence in rules if is_wrong]
