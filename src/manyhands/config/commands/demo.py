"""Flags of `manyhands demo`."""

from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.paths.output import folder_fault, json_faults
from manyhands.config.schema.rules import at_least
from manyhands.config.train import ProcessesConfig


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Flags of the demo."""

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
        """Return every invalid value."""
        folder = self.output_dir
        fault = None if folder is None else folder_fault("--output_dir", folder)
        return [
            *at_least(self, "", 0, "seed"),
            *at_least(self.launch, "launch.", 1, "num_processes"),
            *([] if fault is None else [fault]),
            *json_faults(self.json),
        ]
