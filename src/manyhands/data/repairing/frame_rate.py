"""The frame rate of a damaged dataset: as declared, unless its files contradict it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from manyhands.data.repairing.report import RepairReport
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names

_TOLERANCE = 0.01


def found_fps(
    info: Mapping[str, Any], rows: pa.Table, video_rates: Sequence[float], report: RepairReport
) -> int:
    """Frames per second as an integer; raises a DatasetError if nothing tells."""
    measured = [*video_rates, *_timestamp_rate(rows)]
    declared = info.get("fps")
    is_number = isinstance(declared, int | float) and not isinstance(declared, bool)
    rate = float(declared or 0) if is_number else 0.0
    if rate > 0 and (not measured or any(_is_close(rate, each) for each in measured)):
        fps = rate
    elif measured:
        fps = measured[0]
        source = "videos" if video_rates else "timestamps"
        report.add(names.INFO_FILE, f"fps is {declared}", f"{fps:g}, as the {source} have it")
    else:
        raise DatasetError(
            f"{names.INFO_FILE} has no fps, and neither timestamps nor videos show it. Add it"
        )
    if abs(fps - round(fps)) > 1e-6:
        report.add(names.INFO_FILE, f"fps {fps:g} is no integer", f"rounded to {round(fps)}")
    return max(1, round(fps))


def _timestamp_rate(rows: pa.Table) -> list[float]:
    if names.TIMESTAMP not in rows.column_names or rows.num_rows < 2:
        return []
    column = rows[names.TIMESTAMP]
    if column.null_count or not pa.types.is_floating(column.type):
        return []
    step = float(np.median(np.diff(column.to_numpy())))
    return [1 / step] if step > 0 else []


def _is_close(one: Any, other: float) -> bool:
    return bool(abs(one - other) <= _TOLERANCE * other)
