"""Index columns count, and what was wrong with them is noted."""

import numpy as np
import pyarrow as pa
import pytest

from manyhands.data.repairing.index_columns import EpisodePlace, index_columns, note_faults
from manyhands.data.repairing.report import RepairReport

REBUILT = index_columns(3, EpisodePlace(episode=4, first_frame=20), 10, np.array([0, 0, 1]))


def test_columns_count_from_their_place():
    assert {key: values.tolist() for key, values in REBUILT.items()} == {
        "timestamp": [0, 0.1, 0.2],
        "frame_index": [0, 1, 2],
        "episode_index": [4, 4, 4],
        "index": [20, 21, 22],
        "task_index": [0, 0, 1],
    }


@pytest.mark.parametrize(
    ("change", "where", "fault"),
    [
        ({"index": None}, "column index", "missing"),
        ({"index": [0, 1, 2]}, "column index", "wrong values"),
        ({"episode_index": ["a", "b", "c"]}, "column episode_index", "wrong values"),
        ({"frame_index": pa.array([0, None, 2])}, "column frame_index", "wrong values"),
        ({"timestamp": [0, 0.2, 0.4]}, "column timestamp", "wrong values"),
        ({"task_index": [0.5, 1, 2]}, "column task_index", "wrong values"),
    ],
)
def test_faults_are_noted(change, where, fault):
    columns = {key: value for key, value in (REBUILT | change).items() if value is not None}
    report = RepairReport()
    note_faults(pa.table(columns), REBUILT, 4, report)
    assert [(each.where, each.fault, each.episodes) for each in report.repairs] == [
        (where, fault, (4,))
    ]


def test_small_differences_of_time_and_other_task_numbers_are_no_faults():
    report = RepairReport()
    change = {"timestamp": REBUILT["timestamp"] + 1e-4, "task_index": [7, 7, 8]}
    note_faults(pa.table(REBUILT | change), REBUILT, 4, report)
    assert report.repairs == []
