"""Faults of files name the file."""

import json
import re

import pyarrow as pa
import pytest

from manyhands.errors import DatasetError
from manyhands.lerobot_format.tables import (
    read_columns,
    read_footer,
    read_json_object,
    read_row_group,
    write_json_object,
    write_table,
)


def test_json_is_written_as_lerobot_does(tmp_path):
    path = tmp_path / "meta" / "x.json"
    write_json_object(path, {"task": "schieße", "shape": [1]})
    assert path.read_text(encoding="utf-8") == (
        '{\n    "task": "schieße",\n    "shape": [\n        1\n    ]\n}'
    )
    assert read_json_object(path) == {"task": "schieße", "shape": [1]}


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", json.dumps("text"), b"\xff\xfe"])
def test_what_is_no_json_object_is_refused(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DatasetError, match=re.escape(str(path))):
        read_json_object(path)


def test_a_table_comes_back(tmp_path):
    path, table = tmp_path / "new" / "x.parquet", pa.table({"a": [1, 2], "b": ["x", "y"]})
    write_table(path, table)
    assert read_columns(path, ["b"]).to_pydict() == {"b": ["x", "y"]}
    assert read_row_group(path, read_footer(path), 0, "a").to_pylist() == [1, 2]


def test_missing_columns_and_files_are_named(tmp_path):
    path = tmp_path / "x.parquet"
    with pytest.raises(DatasetError, match=r"x\.parquet is missing"):
        read_columns(path, ["a"])
    write_table(path, pa.table({"a": [1]}))
    with pytest.raises(DatasetError, match=r"x\.parquet has no column b, c"):
        read_columns(path, ["a", "b", "c"])


def test_damage_anywhere_in_a_table_is_noticed(tmp_path):
    path = tmp_path / "x.parquet"
    write_table(path, pa.table({"a": [str(number) for number in range(1000)]}))
    content = path.read_bytes()
    footer = read_footer(path)
    for damaged in (content[:-1], content[:100], b"", b"\0" * 2000 + content[2000:]):
        path.write_bytes(damaged)
        with pytest.raises(DatasetError, match=re.escape(f"{path} is damaged")):
            read_columns(path, ["a"])
    with pytest.raises(DatasetError, match=re.escape(f"{path} is damaged")):
        read_row_group(path, footer, 0, "a")
