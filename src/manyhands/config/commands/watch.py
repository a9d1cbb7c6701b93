"""Flags of `manyhands watch`."""

from dataclasses import dataclass

from manyhands.config.schema.rules import at_least

LAST_PORT = 2**16 - 1


@dataclass(frozen=True, kw_only=True)
class WatchConfig:
    """Flags of the page that follows a run."""

    host: str = "127.0.0.1"
    """Address to listen on; the default serves this machine only."""
    port: int = 0
    """Port to listen on; 0: a free one."""
    frames: int = 6
    """Training frames to show per camera, if the dataset is still in its folder; 0: none."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        faults = list(at_least(self, "", 0, "port", "frames"))
        if self.port > LAST_PORT:
            faults.append(f"--port={self.port} must be at most {LAST_PORT}")
        return faults
