"""Features of a damaged dataset: as declared, with shapes and types as its files have them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from manyhands.data.images.embedded import image_bytes
from manyhands.data.images.encoder import stream_info
from manyhands.data.images.image_files import decode_image
from manyhands.data.repairing.found_clips import VideoFacts
from manyhands.data.repairing.report import RepairReport
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.features import Feature, parse_features
from manyhands.lerobot_format.dataset.tables import is_list, is_text, leaf_type

_AXES = ["height", "width", "channels"]
_INFO = names.INFO_FILE


@dataclass(frozen=True)
class FeatureSources:
    """What the files show: the rows of one episode, and one video of each camera."""

    rows: pa.Table
    videos: Mapping[str, VideoFacts]


def found_features(
    info: Mapping[str, Any], sources: FeatureSources, report: RepairReport
) -> dict[str, Feature]:
    """The features to declare, without those that every dataset has."""
    declared = _declared(info, report)
    features: dict[str, Feature] = {}
    for key, facts in sources.videos.items():
        features[key] = _camera(key, declared.get(key), facts, report)
    for key in sources.rows.column_names:
        if key not in names.RESERVED_FEATURES and not key.startswith("__"):
            feature = _column(key, declared.get(key), sources.rows[key], report)
            features |= {key: feature} if feature is not None else {}
    for key in [*declared]:
        if key not in features and key not in names.RESERVED_FEATURES:
            report.add(_INFO, f"feature {key} has no column and no video", "feature removed")
    ordered = [key for key in declared if key in features]
    return {key: features[key] for key in dict.fromkeys([*ordered, *features])}


def _declared(info: Mapping[str, Any], report: RepairReport) -> dict[str, Feature]:
    document = info.get("features")
    declared: dict[str, Feature] = {}
    for key, entry in document.items() if isinstance(document, dict) else ():
        try:
            declared |= parse_features({key: entry})
        except ValueError as error:
            report.add(_INFO, str(error), "declared as the files have it")
    absent = [key for key in names.RESERVED_FEATURES if key not in declared]
    if absent:
        report.add(_INFO, f"features {', '.join(absent)} are not declared", "declared")
    return declared


def _camera(key: str, declared: Feature | None, facts: VideoFacts, report: RepairReport) -> Feature:
    if declared is not None and declared.is_camera and declared.is_depth:
        return declared
    shape = (facts.height, facts.width, 3)
    found = Feature(names.VIDEO, shape, _AXES, stream_info(1, *shape[:2]) | facts.stream_info)
    if declared is None or declared.dtype != names.VIDEO:
        report.add(_INFO, f"camera {key} is not declared", f"declared as {_sizes(shape)}")
        return found
    height_width = declared.channel_first_shape[1:]
    if declared.channel_first_shape[0] == 3 and height_width == shape[:2]:
        return replace(declared, info=declared.info | facts.stream_info)
    fault = f"camera {key} is declared as {_sizes(declared.shape)}"
    report.add(_INFO, fault, f"declared as its videos have it: {_sizes(shape)}")
    return found


def _column(
    key: str, declared: Feature | None, column: pa.ChunkedArray, report: RepairReport
) -> Feature | None:
    if declared is not None and declared.dtype == names.LANGUAGE:
        return declared
    found = _as_stored(column)
    if found is None:
        report.add(_INFO, f"column {key} of {column.type} is of no known type", "column removed")
        return None
    if declared is None:
        report.add(_INFO, f"column {key} is not declared", f"declared as {_text(found)}")
        return found
    is_alike = (declared.is_camera, declared.is_number) == (found.is_camera, found.is_number)
    if is_alike and np.prod(declared.channel_first_shape) == np.prod(found.channel_first_shape):
        return declared
    report.add(
        _INFO, f"{key} is declared as {_text(declared)}", f"declared as stored: {_text(found)}"
    )
    keeps_names = is_alike and declared.shape == found.shape
    return replace(found, names=declared.names if keeps_names else found.names)


def _as_stored(column: pa.ChunkedArray) -> Feature | None:
    """The feature that the first value of a column shows."""
    kind, value = column.type, column[0].as_py()
    if pa.types.is_struct(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        encoded = image_bytes(value)
        try:
            shape = decode_image(encoded or b"", None).shape
        except ValueError:
            return None
        return Feature(names.IMAGE, shape if len(shape) == 3 else (*shape, 1), _AXES)
    if is_text(leaf_type(kind)):
        return Feature(names.STRING, (1,)) if not is_list(kind) else None
    try:
        shape = np.shape(value) or (1,)
        dtype = str(np.dtype(leaf_type(kind).to_pandas_dtype()))
        return parse_features({"a": {"dtype": dtype, "shape": shape}})["a"]
    except (ValueError, TypeError, NotImplementedError):
        return None


def _text(feature: Feature) -> str:
    return f"{feature.dtype} {_sizes(feature.shape)}"


def _sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
