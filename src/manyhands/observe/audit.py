"""Records the samples of every step: `audit/rank-NN.jsonl`."""

from pathlib import Path

from manyhands.observe.jsonl import JsonLines
from manyhands.types import Batch


class Audit:
    """Writes the dataset rows of this rank's local batch at every step."""

    def __init__(self, run_dir: Path, rank: int, num_ranks: int, step: int) -> None:
        folder = run_dir / "audit"
        self._rows = JsonLines(folder / audit_file(rank), step)
        # A run resumed with fewer ranks also trims the files of the missing ranks.
        gone = rank + num_ranks
        while (folder / audit_file(gone)).exists():
            JsonLines(folder / audit_file(gone), step)
            gone += num_ranks

    def record(self, step: int, batch: Batch) -> None:
        """Record the samples of a step."""
        self._rows.append({"step": step, "indices": batch["index"].tolist()})

    def truncate(self, step: int) -> None:
        """Drop rows after a step, whose steps run again."""
        self._rows.keep_until(step)


def audit_file(rank: int) -> str:
    """The name of a rank's file."""
    return f"rank-{rank:02d}.jsonl"


class NoAudit:
    """Records nothing."""

    def record(self, step: int, batch: Batch) -> None:
        """Do nothing."""

    def truncate(self, step: int) -> None:
        """Do nothing."""
