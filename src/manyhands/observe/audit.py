"""Proof of which samples every update used: `audit/rank-NN.jsonl`."""

from pathlib import Path

from manyhands.observe.rows import RowFile
from manyhands.types import Batch


class Audit:
    """Writes the dataset rows of this rank's part of every update."""

    def __init__(self, run_dir: Path, rank: int, num_ranks: int, step: int) -> None:
        folder = run_dir / "audit"
        self._rows = RowFile(folder / audit_file(rank), step)
        # A run resumed with fewer ranks also takes back what the ranks that are gone wrote last.
        gone = rank + num_ranks
        while (folder / audit_file(gone)).exists():
            RowFile(folder / audit_file(gone), step)
            gone += num_ranks

    def note(self, step: int, batch: Batch) -> None:
        """Record what an update used."""
        self._rows.append({"step": step, "indices": batch["index"].tolist()})

    def return_to(self, step: int) -> None:
        """Forget updates after a step, which are made again."""
        self._rows.keep_until(step)


def audit_file(rank: int) -> str:
    """The name of a rank's file."""
    return f"rank-{rank:02d}.jsonl"


class NoAudit:
    """Records nothing."""

    def note(self, step: int, batch: Batch) -> None:
        """Nobody asked."""

    def return_to(self, step: int) -> None:
        """There is nothing to forget."""
