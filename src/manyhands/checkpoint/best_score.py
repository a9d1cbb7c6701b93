"""The score that the best checkpoint of a run is chosen by."""

import math
from collections.abc import Mapping
from typing import Any

SUCCESS = "success"
METRICS = {SUCCESS: "eval_success"}
"""Metrics of scores that have another name."""
HIGHER_IS_BETTER = (SUCCESS,)


class BestScore:
    """A score of `--keep_best`, as a loss: the lowest is the best."""

    def __init__(self, name: str | None) -> None:
        self.metric = METRICS.get(str(name), str(name))
        self._sign = -1.0 if name in HIGHER_IS_BETTER else 1.0

    def is_in(self, metrics: Mapping[str, Any]) -> bool:
        """Whether it was measured."""
        return self.metric in metrics

    def loss(self, metrics: Mapping[str, Any]) -> float:
        """Its value, to be minimized; infinite if it is no number."""
        value = self._sign * float(metrics[self.metric])
        return math.inf if math.isnan(value) else value
