"""`meta/info.json`: features, frame rate, counts and file paths of a dataset."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from string import Formatter
from typing import Any

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.features import Feature as Feature
from manyhands.lerobot_format.dataset.features import feature_document
from manyhands.lerobot_format.dataset.features import parse_features as parse_features
from manyhands.lerobot_format.dataset.tables import naming_file, whole_number, write_json_object
from manyhands.lerobot_format.dataset.unusable_file import check_file
from manyhands.lerobot_format.dataset.version_evidence import settled_document
from manyhands.lerobot_format.files import read_json

_MAX_CHARACTERS = 500
_WIDTH = re.compile(r"(0?\d{1,2})?d?")
_DRIVE = re.compile(r"[A-Za-z]:")


def fill_template(template: object, values: Mapping[str, int | str]) -> str:
    """Fill a path template; raises ValueError if the path is not inside the folder."""
    if not isinstance(template, str) or len(template) > _MAX_CHARACTERS:
        raise _unfillable(template, f"it must be a string of at most {_MAX_CHARACTERS} characters")
    try:
        _check_fields(template, frozenset(values))
        path = template.format(**values)
    except ValueError as error:
        raise _unfillable(template, str(error)) from None
    # Both separators and drives count, so that a dataset is safe on any system.
    parts = re.split(r"[/\\]", path)
    has_root = not parts[0] or _DRIVE.match(path) is not None
    if has_root or ".." in parts or not path.isprintable():
        raise ValueError(f"the path {path!r} leads out of the dataset folder")
    return path


@lru_cache(maxsize=64)
def _check_fields(template: str, known: frozenset[str]) -> None:
    """Reject fields that access attributes or pad without limit."""
    for _, name, width, conversion in Formatter().parse(template):
        if name is None:
            continue
        if name not in known:
            raise ValueError(f"{{{name}}} is not one of {', '.join(sorted(known))}")
        if conversion or not _WIDTH.fullmatch(width or ""):
            raise ValueError(f"{{{name}}} has an unsupported format")


def _unfillable(template: object, reason: str) -> ValueError:
    return ValueError(f"the path template {template!r:.100} cannot be filled in: {reason}")


_FILE_FIELDS = {2: ("episode_chunk", "episode_index"), 3: ("chunk_index", "file_index")}
"""What path templates call the numbers of a folder and of a file in it, by major version."""
_TOTALS = ("total_episodes", "total_frames", "total_tasks")
_FILE_SIZES = ("data_files_size_in_mb", "video_files_size_in_mb")


@dataclass(frozen=True)
class DatasetInfo:
    """The contents of `meta/info.json`, keys in LeRobot's order."""

    codebase_version: str
    fps: float
    features: dict[str, Feature]
    total_episodes: int = 0
    total_frames: int = 0
    total_tasks: int = 0
    chunks_size: int = 1000  # Files per chunk folder; in version 2 each holds one episode
    data_files_size_in_mb: int = 100
    video_files_size_in_mb: int = 200
    data_path: str = names.DATA_PATH
    video_path: str | None = names.VIDEO_PATH
    robot_type: str | None = None
    splits: dict[str, Any] = field(default_factory=dict)
    tools: list[Any] | None = None  # Functions a policy may call, as annotations describe them

    @property
    def major_version(self) -> int:
        """The format version: 2 has one episode per file, 3 has many."""
        return _major_version(self.codebase_version)

    @property
    def video_keys(self) -> list[str]:
        """Cameras stored as video, in the order of the features."""
        return [key for key, feature in self.features.items() if feature.dtype == names.VIDEO]

    def data_file(self, chunk_index: int, file_index: int) -> str:
        """The path of a data file inside the dataset folder."""
        return self._filled(self.data_path, chunk_index, file_index)

    def video_file(self, video_key: str, chunk_index: int, file_index: int) -> str:
        """The path of a video file inside the dataset folder."""
        if self.video_path is None:
            raise DatasetError(
                f"{names.INFO_FILE} declares the video {video_key} but its video_path is null. "
                "Set video_path"
            )
        return self._filled(self.video_path, chunk_index, file_index, video_key=video_key)

    def _filled(self, template: str, *numbers: int, **others: str) -> str:
        fields = zip(_FILE_FIELDS[self.major_version], numbers, strict=True)
        try:
            return fill_template(template, {**dict(fields), **others})
        except ValueError as error:
            raise DatasetError(f"{names.INFO_FILE}: {error}; correct it") from None


def read_info(root: Path) -> DatasetInfo:
    """Read the metadata of a dataset of version 2.0, 2.1 or 3."""
    return read_settled_info(root)[0]


def read_settled_info(root: Path) -> tuple[DatasetInfo, list[str]]:
    """Read the metadata, and how its version and paths differ from what is declared."""
    path = root / names.INFO_FILE
    check_file(path)
    document, notes = settled_document(root, read_json(path, DatasetError))
    with naming_file(path):
        return _parse_info(document), notes


def write_info(root: Path, info: DatasetInfo) -> None:
    """Write the metadata with LeRobot's keys in LeRobot's order."""
    document = vars(info) | {
        "features": {key: feature_document(feature) for key, feature in info.features.items()}
    }
    if info.tools is None:
        del document["tools"]
    write_json_object(root / names.INFO_FILE, document)


def _parse_info(document: dict[str, Any]) -> DatasetInfo:
    absent = [key for key in ("codebase_version", "fps", "features") if key not in document]
    if absent:
        raise ValueError(f"key {', '.join(map(repr, absent))} is missing")
    major = _major_version(document["codebase_version"])
    features = parse_features(document["features"])
    for key in names.RESERVED_FEATURES.keys() & features.keys():
        if not features[key].is_number or math.prod(features[key].shape) != 1:
            raise ValueError(f"feature {key} must be a scalar")
    return DatasetInfo(
        codebase_version=document["codebase_version"],
        fps=_positive(document, "fps"),
        features=features,
        **_counters(document),
        **_paths(document, major),
        **_extras(document),
    )


def _major_version(version: object) -> int:
    known = r"v?(2\.[01]|3\.\d+)(\.\d+)?"
    match = re.fullmatch(known, version, re.ASCII) if isinstance(version, str) else None
    if match is None:
        raise ValueError(f"unknown format version {version!r:.60}; supported: v2.0, v2.1 and v3.x")
    return int(match[1][0])


def _counters(document: dict[str, Any]) -> dict[str, Any]:
    """Parse counters; zero, as in a new dataset, means not counted."""
    totals = [key for key in _TOTALS if document.get(key) is not None]
    counted: dict[str, Any] = {key: whole_number(document[key], key) for key in totals}
    if "chunks_size" in document:
        counted["chunks_size"] = whole_number(document["chunks_size"], "chunks_size", least=1)
    sizes = [key for key in _FILE_SIZES if key in document]
    return counted | {key: _positive(document, key) for key in sizes}


def _paths(document: dict[str, Any], major: int) -> dict[str, Any]:
    fields = dict.fromkeys(_FILE_FIELDS[major], 0)
    data_path = document.get("data_path", names.V2_DATA_PATH if major == 2 else names.DATA_PATH)
    fill_template(data_path, fields)
    video_path = document.get("video_path", names.V2_VIDEO_PATH if major == 2 else names.VIDEO_PATH)
    if video_path is not None:
        fill_template(video_path, {**fields, "video_key": "camera"})
    return {"data_path": data_path, "video_path": video_path}


def _extras(document: dict[str, Any]) -> dict[str, Any]:
    """Parse values that are stored but not used."""
    robot_type, splits = document.get("robot_type"), document.get("splits")
    if robot_type is not None and not isinstance(robot_type, str):
        raise ValueError(f"robot_type must be a string or null, not {robot_type!r:.60}")
    if splits is not None and not isinstance(splits, dict):
        raise ValueError(f"splits must be an object, not {splits!r:.60}")
    tools = document.get("tools")
    if tools is not None and not isinstance(tools, list):
        raise ValueError(f"tools must be a list, not {tools!r:.60}")
    return {"robot_type": robot_type, "splits": splits or {}, "tools": tools}


def _positive(document: dict[str, Any], key: str) -> Any:
    value = document[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise ValueError(f"{key} must be a positive number, not {value!r:.60}")
    return value
