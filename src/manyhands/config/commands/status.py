"""Flags of `manyhands status`."""

from dataclasses import dataclass
from pathlib import Path

from manyhands.config.paths.output import json_faults


@dataclass(frozen=True, kw_only=True)
class StatusConfig:
    """Flags of the table of runs."""

    json: Path | None = None
    """JSON file for the table."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        return json_faults(self.json)
