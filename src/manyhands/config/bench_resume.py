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
    """Times that a process is ended by kill -9, over all cases; 0 for none."""
    cases: list[str] | None = None
    """Which runs are killed, as [act-ddp]; null takes act and diffusion in all strategies."""
    seed: int = 0
    """Seed of which processes are killed, and when."""
    saves: int = 9
    """Saves of 500 MB, each way, whose delay is measured; 0 for none."""
    folder: Path | None = None
    """New folder for all runs, which stays; null takes a temporary one, kept if a run fails."""
    json: Path | None = None
    """File to write the results to."""

    def faults(self) -> list[str]:
        """Values that nothing can be measured with."""
        strange = [name for name in self.cases or () if name not in CASES]
        rules = [
            (self.kills < 0, f"--kills={self.kills} must be at least 0"),
            (self.saves < 0, f"--saves={self.saves} must be at least 0"),
            (self.cases == [], "--cases=[] leaves nothing to kill; leave it out, or use --kills=0"),
            (
                bool(strange),
                f"--cases={self.cases}: {strange[:1]} is not one of {', '.join(CASES)}",
            ),
            (
                self.folder is not None and self.folder.exists(),
                f"--folder={self.folder} exists already; choose a new one",
            ),
        ]
        return [sentence for is_wrong, sentence in rules if is_wrong]
