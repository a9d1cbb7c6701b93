"""The columns that every dataset has, rebuilt; what was wrong with them is noted."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from manyhands.data.repairing.report import RepairReport
from manyhands.lerobot_format import names

_REBUILT = "rebuilt"
_TIME_TOLERANCE_S = 1e-3


@dataclass(frozen=True)
class EpisodePlace:
    """Where an episode begins, before or after the repair."""

    episode: int
    first_frame: int


def index_columns(
    num_rows: int, place: EpisodePlace, fps: int, task_numbers: np.ndarray
) -> dict[str, np.ndarray]:
    """The columns of an episode as LeRobot's recorder counts; times in full precision."""
    frames = np.arange(num_rows)
    return {
        names.TIMESTAMP: frames / fps,
        names.FRAME_INDEX: frames,
        names.EPISODE_INDEX: np.full(num_rows, place.episode),
        names.INDEX: frames + place.first_frame,
        names.TASK_INDEX: task_numbers,
    }


def note_faults(
    rows: pa.Table, rebuilt: Mapping[str, np.ndarray], episode: int, report: RepairReport
) -> None:
    """Note which columns were missing or wrong; tasks may have other numbers."""
    for name, expected in rebuilt.items():
        where = f"column {name}"
        if name not in rows.column_names:
            report.add(where, "missing", _REBUILT, [episode])
        elif rows[name].null_count or not _is_same(rows[name], expected, name):
            report.add(where, "wrong values", _REBUILT, [episode])


def _is_same(column: pa.ChunkedArray, expected: np.ndarray, name: str) -> bool:
    if name == names.TASK_INDEX:
        return bool(pa.types.is_integer(column.type))
    try:
        values = np.asarray(column.to_numpy(), dtype=np.float64).reshape(-1)
    except (ValueError, TypeError):
        return False
    tolerance = _TIME_TOLERANCE_S if name == names.TIMESTAMP else 0
    return len(values) == len(expected) and bool(np.abs(values - expected).max() <= tolerance)
