"""`meta/info.json`: what a dataset holds, at which rate, and where its files are."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.tables import read_json_object, write_json_object


@dataclass(frozen=True)
class Feature:
    """One column or camera: its dtype, and its shape without a time axis."""

    dtype: str
    shape: tuple[int, ...]
    names: Any = None
    info: dict[str, Any] = field(default_factory=dict)
    """Facts about a camera's video stream."""

    @property
    def is_camera(self) -> bool:
        """Whether the values are pictures."""
        return self.dtype in (names.IMAGE, names.VIDEO)

    @property
    def is_depth(self) -> bool:
        """Whether the pictures hold distances; releases of LeRobot flag it in different places."""
        return bool(self.info.get("is_depth_map") or self.info.get("video.is_depth_map"))

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers or truth values."""
        return not self.is_camera and self.dtype not in (names.STRING, names.LANGUAGE)

    @property
    def channels_last(self) -> bool:
        """Whether a picture's shape is declared as height, width, channels."""
        labels = self.names if isinstance(self.names, list | tuple) else ()
        return len(labels) == 3 and labels[2] in ("channel", "channels")

    @property
    def channel_first_shape(self) -> tuple[int, ...]:
        """The shape with a picture's channels in front; that of other features as it is."""
        if not (self.is_camera and self.channels_last):
            return self.shape
        height, width, channels = self.shape
        return (channels, height, width)


@dataclass(frozen=True)
class DatasetInfo:
    """The whole of `meta/info.json`, keys in LeRobot's order."""

    codebase_version: str
    fps: float
    features: dict[str, Feature]
    total_episodes: int = 0
    total_frames: int = 0
    total_tasks: int = 0
    chunks_size: int = 1000
    """Files per chunk folder."""
    data_files_size_in_mb: int = 100
    video_files_size_in_mb: int = 200
    data_path: str = names.DATA_PATH
    video_path: str | None = names.VIDEO_PATH
    robot_type: str | None = None
    splits: dict[str, str] = field(default_factory=dict)

    @property
    def video_keys(self) -> list[str]:
        """Cameras stored as video, in the order of the features."""
        return [key for key, feature in self.features.items() if feature.dtype == names.VIDEO]

    def data_file(self, chunk_index: int, file_index: int) -> str:
        """Where a file of frames lies inside the dataset folder."""
        return _rendered(self.data_path, chunk_index=chunk_index, file_index=file_index)

    def video_file(self, video_key: str, chunk_index: int, file_index: int) -> str:
        """Where a video file lies inside the dataset folder."""
        if self.video_path is None:
            raise DatasetError(
                f"{names.INFO_FILE} declares the video {video_key} but its video_path is null"
            )
        numbers = {"chunk_index": chunk_index, "file_index": file_index}
        return _rendered(self.video_path, video_key=video_key, **numbers)


def read_info(root: Path) -> DatasetInfo:
    """The description of the dataset in a folder; refuses versions other than 3."""
    path = root / names.INFO_FILE
    document = read_json_object(path)
    try:
        return _parse_info(document)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"key {error} is missing" if isinstance(error, KeyError) else error
        raise DatasetError(f"{path}: {reason}") from None


def write_info(root: Path, info: DatasetInfo) -> None:
    """Write the description with LeRobot's keys in LeRobot's order."""
    document = vars(info) | {
        "features": {key: _feature_document(feature) for key, feature in info.features.items()}
    }
    write_json_object(root / names.INFO_FILE, document)


def parse_features(document: Mapping[str, Any]) -> dict[str, Feature]:
    """Features from LeRobot's own form; a ValueError says what is wrong with which."""
    if not isinstance(document, Mapping):
        raise ValueError(f"features must be an object, not {document!r:.60}")
    return {key: _parse_feature(key, entry) for key, entry in document.items()}


def _parse_info(document: dict[str, Any]) -> DatasetInfo:
    _check_version(document["codebase_version"])
    optional = {
        key: document[key]
        for key in ("total_episodes", "total_frames", "total_tasks", "robot_type", "splits")
        if document.get(key) is not None
    }
    for key in ("chunks_size", "data_files_size_in_mb", "video_files_size_in_mb"):
        if key in document:
            optional[key] = _positive(document, key)
    for key in ("data_path", "video_path"):
        if key in document:
            optional[key] = document[key]
    return DatasetInfo(
        codebase_version=document["codebase_version"],
        fps=_positive(document, "fps"),
        features=parse_features(document["features"]),
        **optional,
    )


def _check_version(version: object) -> None:
    match = re.fullmatch(r"v?(\d+)\.\d+(\.\d+)?", str(version))
    if match is None or int(match[1]) > 3:
        raise ValueError(f"unknown format version {version}; v3.x can be read")
    if int(match[1]) < 3:
        raise ValueError(f"format version {version} is too old; convert the dataset to v3.0 first")


def _positive(document: dict[str, Any], key: str) -> Any:
    value = document[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise ValueError(f"{key} must be a positive number, not {value!r}")
    return value


def _parse_feature(key: str, entry: Any) -> Feature:
    if "/" in key:
        raise ValueError(f"feature name {key!r} must not hold a slash")
    if not isinstance(entry, Mapping):
        raise ValueError(f"feature {key} must be an object, not {entry!r:.60}")
    shape = entry.get("shape")
    if not isinstance(shape, list | tuple) or not all(_is_size(size) for size in shape):
        raise ValueError(f"feature {key}: shape must be a list of positive integers, not {shape!r}")
    feature = Feature(
        dtype=str(entry.get("dtype")),
        shape=tuple(shape),
        names=entry.get("names"),
        info={**(entry.get("video_info") or {}), **(entry.get("info") or {})},
    )
    if feature.is_camera and len(feature.shape) != 3:
        raise ValueError(f"feature {key}: a camera needs three sizes, not {list(shape)}")
    if feature.is_number and not _is_number_type(feature.dtype):
        raise ValueError(f"feature {key}: unknown dtype {feature.dtype!r}")
    return feature


def _is_size(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size > 0


def _is_number_type(dtype: str) -> bool:
    try:
        return np.dtype(dtype).kind in "fiub"
    except TypeError:
        return False


def _feature_document(feature: Feature) -> dict[str, Any]:
    document = {"dtype": feature.dtype, "shape": list(feature.shape), "names": feature.names}
    return document | {"info": feature.info} if feature.info else document


def _rendered(template: str, **values: object) -> str:
    """Fill in a path template; the result must stay inside the dataset folder."""
    try:
        path = template.format(**values)
    except (AttributeError, IndexError, KeyError, ValueError) as error:
        raise DatasetError(
            f"{names.INFO_FILE}: the path template {template!r} cannot be filled in: {error!r}"
        ) from None
    windows = PureWindowsPath(path)
    escapes = PurePosixPath(path).is_absolute() or windows.anchor or ".." in windows.parts
    if escapes or not path or "\0" in path:
        raise DatasetError(f"{names.INFO_FILE}: the path {path!r} leads out of the dataset folder")
    return path
