"""The files below `data/`: one row per frame, laid out as LeRobot's recorder does."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset_info import Feature

MAX_DIMS = 5


def frame_table(columns: Mapping[str, Any], features: Mapping[str, Feature]) -> pa.Table:
    """Rows of one episode; numbers as arrays (frames, ...), pictures as lists of PNG files."""
    stored = {key: feature for key, feature in features.items() if feature.dtype != names.VIDEO}
    arrays = [_array(columns[key], feature) for key, feature in stored.items()]
    fields = [
        pa.field(key, array.type, metadata=_extension(stored[key]))
        for key, array in zip(stored, arrays, strict=True)
    ]
    description = {"info": {"features": {key: _described(stored[key]) for key in stored}}}
    schema = pa.schema(fields, metadata={"huggingface": json.dumps(description)})
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(values: Any, feature: Feature) -> pa.Array:
    if feature.dtype == names.IMAGE:
        return _picture_array(values)
    if feature.dtype == names.STRING:
        return pa.array(values, pa.string())
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    if feature.shape == (1,):
        return flat
    if len(feature.shape) == 1:
        return pa.FixedSizeListArray.from_arrays(flat, feature.shape[0])
    for size in reversed(feature.shape):
        offsets = np.arange(0, len(flat) + 1, size, dtype=np.int32)
        flat = pa.ListArray.from_arrays(offsets, flat)
    return flat


def _picture_array(files: Sequence[bytes]) -> pa.Array:
    paths = [f"frame-{number:06d}.png" for number in range(len(files))]
    columns = [pa.array(files, pa.binary()), pa.array(paths, pa.string())]
    return pa.StructArray.from_arrays(columns, ["bytes", "path"])


def _extension(feature: Feature) -> dict[str, str] | None:
    """The mark that lets the `datasets` library know a nested list for an array."""
    dims = len(feature.shape)
    if not feature.is_number or dims < 2:
        return None
    return {
        "ARROW:extension:name": f"datasets.features.features.Array{dims}DExtensionType",
        "ARROW:extension:metadata": json.dumps([list(feature.shape), feature.dtype]),
    }


def _described(feature: Feature) -> dict[str, Any]:
    """A feature in the words of the `datasets` library."""
    if feature.dtype == names.IMAGE:
        return {"_type": "Image"}
    value = {"dtype": feature.dtype, "_type": "Value"}
    if feature.shape == (1,):
        return value
    if len(feature.shape) == 1:
        return {"feature": value, "length": feature.shape[0], "_type": "List"}
    kind = f"Array{len(feature.shape)}D"
    return {"shape": list(feature.shape), "dtype": feature.dtype, "_type": kind}
