"""The best checkpoint by every score that it can be chosen by."""

import math
from pathlib import Path

import pytest

from manyhands.checkpoint.best_score import BestScore
from manyhands.checkpoint.retention import SavedCheckpoint, best_checkpoint
from manyhands.config.check import SCORES


@pytest.mark.parametrize("name", SCORES)
def test_only_success_is_better_the_higher_it_is(name):
    metric = BestScore(name).metric
    low, high, unknown = (
        SavedCheckpoint(Path(), step, {metric: value})
        for step, value in ((3, 0.3), (2, 0.7), (1, math.nan))
    )
    assert best_checkpoint([low, high, unknown], name) is (high if name == "success" else low)
    assert best_checkpoint([high, unknown], name) is high
