"""Which columns of another format become which features."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from manyhands.data.importing.source import Column, Frame, ImportSource, as_text, listed
from manyhands.errors import ConfigError, DatasetError
from manyhands.lerobot_format import names

STORAGES = (names.VIDEO, names.IMAGE)
COLOR_ORDERS = ("rgb", "bgr")
DONE = "next.done"
_AXES = ["height", "width", "channels"]
_PART = re.compile(r"(.+?)(?:\[(\d+):(\d+)\])?")
_KEYS = {
    "features": dict,
    "fps": int,
    "task": str,
    "task_column": str,
    "robot_type": str,
    "image_storage": str,
    "color_order": str,
}  # Entries of a mapping file, and their types


@dataclass(frozen=True)
class Part:
    """A column, or some entries of a vector."""

    column: str
    start: int | None = None
    stop: int | None = None

    def __str__(self) -> str:
        return self.column if self.start is None else f"{self.column}[{self.start}:{self.stop}]"

    def values(self, frame: Frame) -> np.ndarray:
        """Its entries in a frame, as a vector."""
        entries: np.ndarray = np.atleast_1d(np.asarray(frame[self.column]))
        return entries if self.start is None else entries[self.start : self.stop]

    def length(self, column: Column) -> int:
        """The number of its entries."""
        whole = column.shape[0] if column.shape else 1
        return whole if self.start is None else len(range(whole)[self.start : self.stop])


@dataclass(frozen=True)
class FeatureMapping:
    """All that an import needs to know."""

    features: dict[str, tuple[Part, ...]]
    fps: int | None = None
    task: str | None = None
    task_column: str | None = None
    robot_type: str | None = None
    image_storage: str = names.VIDEO
    color_order: str = "rgb"

    @property
    def columns(self) -> set[str]:
        """Every column that is read."""
        parts = {part.column for each in self.features.values() for part in each}
        return parts | ({self.task_column} if self.task_column else set())

    def document(self) -> dict[str, Any]:
        """The mapping as it stands in a file."""
        features = {key: " + ".join(map(str, each)) for key, each in self.features.items()}
        return {key: getattr(self, key) for key in _KEYS} | {"features": features}

    def declared(self, columns: Mapping[str, Column]) -> dict[str, dict[str, Any]]:
        """The features in LeRobot's form."""
        return {key: self._declared(key, parts, columns) for key, parts in self.features.items()}

    def frame(self, frame: Frame, columns: Mapping[str, Column]) -> dict[str, Any]:
        """A frame of the source as the writer takes it."""
        values: dict[str, Any] = {names.TASK: self.task}
        if self.task_column is not None:
            values[names.TASK] = as_text(frame[self.task_column])
        for key, parts in self.features.items():
            column = columns[parts[0].column]
            if column.is_image:
                values[key] = _pixels(frame[parts[0].column], column, self.color_order)
            elif column.is_text:
                values[key] = as_text(frame[parts[0].column])
            else:
                values[key] = _numbers(key, parts, frame, columns)
        return values

    def _declared(
        self, key: str, parts: tuple[Part, ...], columns: Mapping[str, Column]
    ) -> dict[str, Any]:
        column = columns[parts[0].column]
        if column.is_image:
            return {
                "dtype": stored_as(column, self.image_storage),
                "shape": list(column.image_shape),
                "names": _AXES,
            }
        if column.is_text:
            return {"dtype": names.STRING, "shape": [1], "names": None}
        size = sum(part.length(columns[part.column]) for part in parts)
        shape = list(column.shape) if len(column.shape) > 1 else [size]
        return {"dtype": _number_type(key, parts, columns), "shape": shape, "names": None}


def stored_as(column: Column, storage: str) -> str:
    """How a camera is stored: videos need three channels and even sizes."""
    height, width, channels = column.image_shape
    return names.IMAGE if channels != 3 or height % 2 or width % 2 else storage


def parse_parts(text: str) -> tuple[Part, ...]:
    """Parse `a + b[0:3]`."""
    parts = []
    for each in text.split(" + "):
        match = _PART.fullmatch(each.strip())
        if match is None:
            raise ConfigError(f"--features: a column is missing in {text!r}")
        bounds = (int(match[2]), int(match[3])) if match[2] else (None, None)
        parts.append(Part(match[1], *bounds))
    return tuple(parts)


def read_mapping_file(path: Path) -> dict[str, Any]:
    """Read the entries of a mapping file."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"--mapping={path} cannot be read as YAML: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("features"), dict):
        raise ConfigError(f"--mapping={path} must have the entry features, a section")
    faults = [f"--mapping={path}: unknown entry {key}" for key in document if key not in _KEYS]
    faults += [
        f"--mapping={path}: {key}={document[key]!r} must be of type {kind.__name__}"
        for key, kind in _KEYS.items()
        if document.get(key) is not None and not isinstance(document[key], kind)
    ]
    if faults:
        raise ConfigError(faults)
    return {key: value for key, value in document.items() if value is not None}


def check_mapping(mapping: FeatureMapping, source: ImportSource) -> None:
    """Reject columns that the source does not have or that do not fit together."""
    unknown = sorted(mapping.columns - source.columns.keys())
    faults = [f"{source.path} has no column {name}" for name in unknown]
    if not unknown:
        for key, parts in mapping.features.items():
            faults += _part_faults(key, parts, source.columns)
        if mapping.task_column and not source.columns[mapping.task_column].is_text:
            faults.append(f"task_column: {mapping.task_column} is no text")
    if faults:
        raise DatasetError("\n".join([*faults, f"its columns are: {listed(source.columns)}"]))


def _part_faults(
    key: str, parts: tuple[Part, ...], columns: Mapping[str, Column]
) -> Collection[str]:
    kinds = [columns[part.column] for part in parts]
    is_vector = [len(kind.shape) < 2 and not kind.is_text for kind in kinds]
    faults = []
    if len(parts) > 1 and not all(is_vector):
        faults.append(f"{key}: only vectors can be joined with +")
    for part, kind, fits in zip(parts, kinds, is_vector, strict=True):
        if part.start is not None and (not fits or part.length(kind) == 0):
            faults.append(f"{key}: {part} selects nothing of a column of {kind}")
        if key.startswith("observation.image") and not kind.is_image:
            faults.append(f"{key}: {part.column} ({kind}) is no color image")
    return faults


def _number_type(key: str, parts: tuple[Part, ...], columns: Mapping[str, Column]) -> str:
    """The stored type: what policies read is float32; other integers and truth values stay."""
    types = {columns[part.column].dtype for part in parts}
    if key == DONE:
        return "bool"
    is_read = key.startswith((names.ACTION, names.OBSERVATION))
    if is_read or len(types) > 1 or np.dtype(types.pop()).kind == "f":
        return "float32"
    return columns[parts[0].column].dtype


def _numbers(
    key: str, parts: tuple[Part, ...], frame: Frame, columns: Mapping[str, Column]
) -> np.ndarray:
    first = columns[parts[0].column]
    if len(first.shape) > 1:
        values = np.asarray(frame[parts[0].column])
    else:
        values = np.concatenate([part.values(frame) for part in parts])
    return values.astype(_number_type(key, parts, columns))


def _pixels(value: Any, column: Column, color_order: str) -> np.ndarray:
    """An image (height, width, channels) of uint8, red first."""
    image = np.asarray(value)
    if column.channels_first:
        image = image.transpose(1, 2, 0)
    if image.dtype != np.uint8:
        scaled = np.rint(image * column.pixel_scale)
        if scaled.min() < 0 or scaled.max() > 255:
            raise DatasetError(
                f"an image has values from {image.min():g} to {image.max():g}; expected are "
                f"0 to {255 / column.pixel_scale:g}, as in the first frame"
            )
        image = scaled.astype(np.uint8)
    if color_order == "bgr" and image.shape[2] >= 3:
        image = image[..., [2, 1, 0, *range(3, image.shape[2])]]
    return image
