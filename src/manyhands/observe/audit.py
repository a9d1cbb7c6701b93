"""Proof of which samples every update used: `audit/rank-NN.jsonl`."""

from pathlib import Path

from manyhands.observe.rows import RowFile
from manyhands.types import Batch


class Audit:
    """Writes the dataset rows of this rank's part of every update."""

    def __init__(self, run_dir: Path, rank: int, step: int) -> None:
        self._rows = RowFile(run_dir / "audit" / f"rank-{rank:02d}.jsonl", step)

    def note(self, step: int, batch: Batch) -> None:
        """Record what an update used."""
        self._rows.append({"step": step, "indices": batch["index"].tolist()})


class NoAudit:
    """Records nothing."""

    def note(self, step: int, batch: Batch) -> None:
        """Nobody asked."""
