"""Flags of `manyhands report`."""

from dataclasses import dataclass
from pathlib import Path

from manyhands.config.paths.output import file_fault
from manyhands.config.schema.rules import at_least


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Flags of the page of a run or a dataset."""

    output: Path | None = None
    """HTML file to write; null: report.html in the run, or here for several runs; <name>.html
    here for a dataset."""
    frames: int = 6
    """Frames to show per camera: of a run's dataset, or of every episode of a dataset; 0: none."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        faults = list(at_least(self, "", 0, "frames"))
        fault = None if self.output is None else file_fault("--output", self.output)
        return faults if fault is None else [*faults, fault]
