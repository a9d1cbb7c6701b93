"""The files below `data/`: one row per frame, as LeRobot's recorder writes them."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.features import Feature


def frame_table(columns: Mapping[str, Any], features: Mapping[str, Feature]) -> pa.Table:
    """Build the rows of one episode: numbers as arrays (frames, ...), images as PNG files."""
    return described_table(
        {
            key: _array(columns[key], feature)
            for key, feature in features.items()
            if feature.dtype != names.VIDEO
        },
        features,
    )


def described_table(arrays: Mapping[str, pa.Array], features: Mapping[str, Feature]) -> pa.Table:
    """Build a table of finished columns, with metadata for the `datasets` library."""
    fields = [
        pa.field(key, array.type, metadata=_extension(features[key]))
        for key, array in arrays.items()
    ]
    metadata = None
    # The feature of annotations does not describe their nesting; readers infer it.
    if not any(features[key].dtype == names.LANGUAGE for key in arrays):
        description = {key: _described(features[key]) for key in arrays}
        metadata = {"huggingface": json.dumps({"info": {"features": description}})}
    return pa.Table.from_arrays(list(arrays.values()), schema=pa.schema(fields, metadata))


def nested_array(flat: pa.Array, shape: tuple[int, ...]) -> pa.Array:
    """Nest flat values in a feature's shape."""
    if shape == (1,):
        return flat
    if len(shape) == 1:
        return pa.FixedSizeListArray.from_arrays(flat, shape[0])
    for size in reversed(shape):
        offsets = np.arange(0, len(flat) + 1, size, dtype=np.int32)
        flat = pa.ListArray.from_arrays(offsets, flat)
    return flat


def image_array(files: pa.Array, paths: pa.Array | None = None) -> pa.Array:
    """Build an image column from encoded files; images without names are numbered."""
    if paths is None:
        paths = pa.array([f"frame-{number:06d}.png" for number in range(len(files))], pa.string())
    return pa.StructArray.from_arrays([files, paths], ["bytes", "path"])


def _array(values: Any, feature: Feature) -> pa.Array:
    if feature.dtype == names.IMAGE:
        return image_array(pa.array(values, pa.binary()))
    if feature.dtype == names.STRING:
        return pa.array(values, pa.string())
    return nested_array(pa.array(np.ascontiguousarray(values).reshape(-1)), feature.shape)


def _extension(feature: Feature) -> dict[str, str] | None:
    """The metadata by which the `datasets` library recognizes a nested list as an array."""
    dims = len(feature.shape)
    if not feature.is_number or dims < 2:
        return None
    return {
        "ARROW:extension:name": f"datasets.features.features.Array{dims}DExtensionType",
        "ARROW:extension:metadata": json.dumps([list(feature.shape), feature.dtype]),
    }


def _described(feature: Feature) -> dict[str, Any]:
    if feature.dtype == names.IMAGE:
        return {"_type": "Image"}
    value = {"dtype": feature.dtype, "_type": "Value"}
    if feature.shape == (1,):
        return value
    if len(feature.shape) == 1:
        return {"feature": value, "length": feature.shape[0], "_type": "List"}
    kind = f"Array{len(feature.shape)}D"
    return {"shape": list(feature.shape), "dtype": feature.dtype, "_type": kind}
