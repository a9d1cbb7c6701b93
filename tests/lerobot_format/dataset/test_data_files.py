"""Rows of an episode as LeRobot lays them out."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from manyhands.lerobot_format.dataset.data_files import described_table, frame_table
from manyhands.lerobot_format.dataset.info import Feature, read_info

FEATURES = {
    "scalar": Feature("float32", (1,)),
    "flag": Feature("bool", (1,)),
    "vector": Feature("int16", (3,)),
    "cube": Feature("float64", (2, 1, 3)),
    "text": Feature("string", (1,)),
    "image": Feature("image", (4, 4, 3)),
    "video": Feature("video", (4, 4, 3)),
}
COLUMNS = {
    "scalar": np.array([[0.5], [1.5]], dtype=np.float32),
    "flag": np.array([True, False]),
    "vector": np.arange(6, dtype=np.int16).reshape(2, 3),
    "cube": np.arange(12.0).reshape(2, 2, 1, 3),
    "text": ["a", "b"],
    "image": [b"one", b"two"],
}


def test_values_are_stored_in_the_form_of_their_shape():
    table = frame_table(COLUMNS, FEATURES)
    assert {field.name: str(field.type) for field in table.schema} == {
        "scalar": "float",
        "flag": "bool",
        "vector": "fixed_size_list<item: int16>[3]",
        "cube": "list<item: list<item: list<item: double>>>",
        "text": "string",
        "image": "struct<bytes: binary, path: string>",
    }
    assert table.to_pylist()[1] == {
        "scalar": 1.5,
        "flag": False,
        "vector": [3, 4, 5],
        "cube": [[[6, 7, 8]], [[9, 10, 11]]],
        "text": "b",
        "image": {"bytes": b"two", "path": "frame-000001.png"},
    }


def test_the_schema_and_its_description_are_lerobots(shared):
    for name in ("two_cameras_video", "images_in_parquet"):
        root = shared / "fixtures" / "datasets" / name
        file = root / "data" / "chunk-000" / "file-000.parquet"
        theirs, features = pq.ParquetFile(file).read_row_group(0), read_info(root).features
        columns = {
            key: [value["bytes"] for value in theirs[key].to_pylist()]
            if feature.dtype == "image"
            else np.array(theirs[key].to_pylist(), dtype=feature.dtype)
            for key, feature in features.items()
            if feature.dtype != "video"
        }
        ours = frame_table(columns, features)
        assert ours.column_names == theirs.column_names
        assert ours.to_pylist() == theirs.to_pylist()
        for field in ours.schema:
            assert field.type.equals(theirs.schema.field(field.name).type), field.name
        described, expected = (
            json.loads(table.schema.metadata[b"huggingface"])["info"] for table in (ours, theirs)
        )
        assert described == expected


def test_annotations_are_left_to_describe_themselves():
    features = {"language_events": Feature("language", (1,)), "scalar": Feature("float32", (1,))}
    said = pa.array([[{"role": "user"}], []])
    table = described_table({"language_events": said, "scalar": pa.array([1.0, 2.0])}, features)
    assert table["language_events"].to_pylist() == said.to_pylist()
    assert table.schema.metadata is None
