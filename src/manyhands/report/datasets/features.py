"""The numbers of a dataset: statistics of every feature, and how their values are distributed."""

import math
from collections.abc import Iterator

import numpy as np

from manyhands.data.dataset import Dataset
from manyhands.data.quality.trajectories import joint_name
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.info import Feature
from manyhands.report.axes import short
from manyhands.report.charts import Chart
from manyhands.report.datasets.dataset_files import DatasetFiles
from manyhands.report.histograms import histogram
from manyhands.report.tables import Column, Table, TableRow
from manyhands.report.text import clipped

MEASURES = ("min", "mean", "max", "std")
COLORS = ("red", "green", "blue")
MAX_JOINTS = 16  # Of one feature
MAX_ROWS = 200
MAX_HISTOGRAMS = 48
MAX_FRAMES = 100_000  # Of a large dataset, spread evenly


def statistics_table(dataset: DatasetFiles) -> Table:
    """A row per number of every feature."""
    rows = [row for key in _shown(dataset) for row in _rows(dataset, key)]
    columns = [Column("feature"), *(Column(name, is_number=True) for name in MEASURES)]
    note = "As recorded in the metadata, which training normalizes by; of images, by channel."
    if not dataset.meta.stats:
        note = "The metadata has no statistics: computed from the frames."
    if len(rows) > MAX_ROWS:
        note += f" {len(rows) - MAX_ROWS} more rows are not shown."
    return Table(columns=columns, rows=rows[:MAX_ROWS], note=note)


def _shown(dataset: DatasetFiles) -> list[str]:
    features = dataset.meta.info.features
    return [
        key
        for key, feature in features.items()
        if key not in names.RESERVED_FEATURES and (feature.is_number or feature.is_camera)
    ]


def _rows(dataset: DatasetFiles, key: str) -> Iterator[TableRow]:
    feature = dataset.meta.info.features[key]
    saved = dataset.meta.stats.get(key) or _computed(dataset, key)
    columns = [np.asarray(saved[name]).reshape(-1) for name in MEASURES if name in saved]
    if len(columns) < len(MEASURES) or len({len(each) for each in columns}) != 1:
        yield TableRow([clipped(f"{key}: not recorded", 90), *[""] * len(MEASURES)])
        return
    for place, values in enumerate(zip(*columns, strict=True)):
        if place == MAX_JOINTS:
            more = len(columns[0]) - MAX_JOINTS
            yield TableRow([clipped(f"{key}: {more} more", 90), *[""] * len(MEASURES)])
            return
        yield TableRow([number_name(key, place, feature), *map(short, map(float, values))])


def _computed(dataset: DatasetFiles, key: str) -> dict[str, np.ndarray]:
    """Statistics of frames spread over the dataset, for want of recorded ones."""
    if dataset.numbers is None or key not in dataset.numbers.features:
        return {}
    frames = spread_frames(dataset.numbers, MAX_FRAMES)
    values = dataset.numbers.column_values(key, frames).astype(np.float64)
    flat = values.reshape(len(frames), -1)
    with np.errstate(invalid="ignore", over="ignore"):
        return {name: getattr(np, name)(flat, axis=0) for name in MEASURES}


def number_name(key: str, place: int, feature: Feature) -> str:
    """A number of a feature of any shape, or a channel of a camera."""
    if feature.is_number and math.prod(feature.shape) == 1:
        return clipped(key, 80)
    if feature.is_camera and feature.channel_first_shape[0] == len(COLORS):
        return clipped(f"{key}[{COLORS[place]}]", 80)
    is_list = feature.is_number and len(feature.shape) == 1
    return clipped(joint_name(key, place, feature) if is_list else f"{key}[{place}]", 80)


def value_histograms(dataset: DatasetFiles) -> tuple[list[Chart], str]:
    """The distribution of every number, and a sentence about them."""
    if dataset.numbers is None:
        return [], f"Values are not shown: {clipped(dataset.fault, 300)}"
    frames = spread_frames(dataset.numbers, MAX_FRAMES)
    features = dataset.numbers.features
    charts, num_numbers = [], 0
    for key in features:
        if key in names.RESERVED_FEATURES:
            continue
        values = dataset.numbers.column_values(key, frames).reshape(len(frames), -1)
        num_numbers += values.shape[1]
        for place in range(min(MAX_JOINTS, values.shape[1])):
            name = number_name(key, place, features[key])
            charts.append(histogram(name, values[:, place], "value", "frames"))
    known = [chart for chart in charts if chart is not None][:MAX_HISTOGRAMS]
    total = len(dataset.numbers)
    note = f"Of {len(frames):,} of {total:,} frames" if len(frames) < total else ""
    more = num_numbers - len(known)
    parts = [note and f"{note}, spread evenly.", f"{more} more are not shown." if more else ""]
    return known, " ".join(filter(None, parts))


def spread_frames(numbers: Dataset, most: int) -> np.ndarray:
    """All frames of a dataset, or that many spread evenly over it."""
    places = np.linspace(0, len(numbers) - 1, min(most, len(numbers))).round().astype(np.int64)
    return numbers.source.selection.frames(places)
