"""The declared rate holds unless the files contradict it."""

import numpy as np
import pyarrow as pa
import pytest

from manyhands.data.repairing.frame_rate import found_fps
from manyhands.data.repairing.report import RepairReport
from manyhands.errors import DatasetError


def rows(fps: float | None) -> pa.Table:
    return pa.table({"timestamp": np.arange(9) / fps} if fps else {"action": [1.0]})


@pytest.mark.parametrize(
    ("declared", "stamped", "filmed", "expected", "num_repairs"),
    [
        (30, 30, [30.0], 30, 0),
        (30, None, [], 30, 0),
        (30.0, 30, [], 30, 0),
        (30, 10, [30.0], 30, 0),
        (30, 10, [10.0], 10, 1),
        (None, 20, [], 20, 1),
        ("x", None, [25.0], 25, 1),
        (29.97, 29.97, [], 30, 1),
    ],
)
def test_files_win_over_a_rate_that_none_of_them_has(
    declared, stamped, filmed, expected, num_repairs
):
    report = RepairReport()
    assert found_fps({"fps": declared}, rows(stamped), filmed, report) == expected
    assert len(report.repairs) == num_repairs


def test_a_rate_that_nothing_shows_is_asked_for():
    with pytest.raises(DatasetError, match="has no fps, and neither timestamps nor videos"):
        found_fps({}, rows(None), [], RepairReport())
