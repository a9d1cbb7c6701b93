"""Ends a run whose score no longer improves.

The rows of metrics.jsonl, which end where a run is resumed or rolled back to, are all it remembers:
such a run ends after the same step as one that was not interrupted.
"""

from pathlib import Path
from typing import Any

from manyhands.checkpoint.best_score import BestScore
from manyhands.config.train import TrainConfig
from manyhands.observe.jsonl import read_rows
from manyhands.observe.progress_line import Metrics
from manyhands.parallel.world import World

Row = dict[str, Any]


class EarlyStopping:
    """Compares the score of `--keep_best` with earlier ones."""

    def __init__(self, config: TrainConfig, world: World, metrics_file: Path) -> None:
        self._patience = config.early_stopping_patience
        self._score = BestScore(config.keep_best)
        self._world = world
        self._file = metrics_file

    def reason_after(self, step: int, scores: Metrics | None = None) -> str | None:
        """Collective. Why the run ends after a step with these scores; None to continue."""
        if self._patience == 0 or scores == {}:
            return None
        return self._world.on_main(lambda: self._reason(step, scores or {}))

    def _reason(self, step: int, scores: Metrics) -> str | None:
        rows: dict[int, Row] = {row.get("step", 0): row for row in self._rows()}
        rows[step] = rows.get(step, {}) | scores
        losses = {at: self._score.loss(row) for at, row in rows.items() if self._score.is_in(row)}
        if not losses:
            return None
        best = min(losses, key=lambda at: losses[at])
        num_later = sum(at > best for at in losses)
        if num_later < self._patience:
            return None
        return (
            f"ended early: {self._score.metric} was best after step {best} and has been measured "
            f"{num_later} times since (--early_stopping_patience={self._patience})"
        )

    def _rows(self) -> list[Row]:
        return list(read_rows(self._file)) if self._file.exists() else []
