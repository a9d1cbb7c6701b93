"""Faults of files name the file."""

import json
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.tables import (
    is_text,
    is_there,
    json_lines,
    leaf_type,
    naming_file,
    read_columns,
    read_footer,
    read_row_group,
    read_row_groups,
    write_json_object,
    write_table,
)
from manyhands.lerobot_format.files import read_json


def test_json_is_written_as_lerobot_does(tmp_path):
    path = tmp_path / "meta" / "x.json"
    write_json_object(path, {"task": "schieße", "shape": [1]})
    assert path.read_text(encoding="utf-8") == (
        '{\n    "task": "schieße",\n    "shape": [\n        1\n    ]\n}'
    )
    assert read_json(path, DatasetError) == {"task": "schieße", "shape": [1]}


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", json.dumps("text"), b"\xff\xfe"])
def test_what_is_no_json_object_is_refused(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DatasetError, match=re.escape(str(path))):
        read_json(path, DatasetError)


def test_a_table_comes_back(tmp_path):
    path, table = tmp_path / "new" / "x.parquet", pa.table({"a": [1, 2], "b": ["x", "y"]})
    write_table(path, table)
    assert read_columns(path, ["b"]).to_pydict() == {"b": ["x", "y"]}
    assert read_row_group(path, read_footer(path), 0, "a").to_pylist() == [1, 2]
    assert read_row_groups(path, read_footer(path), [0], ["b", "a"]).to_pydict() == {
        "b": ["x", "y"],
        "a": [1, 2],
    }


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
        with pytest.raises(DatasetError, match=re.escape(f"{path} is ")):
            read_columns(path, ["a"])
    with pytest.raises(DatasetError, match=re.escape(f"{path} is damaged")):
        read_row_group(path, footer, 0, "a")


FLIPS_OF_A_FOOTER = """
import sys
from pathlib import Path
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.tables import read_columns, read_footer, read_row_groups

path = Path(sys.argv[1])
content = path.read_bytes()
start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
for place in range(8 * start, 8 * len(content)):
    flipped = bytearray(content)
    flipped[place // 8] ^= 1 << place % 8
    path.write_bytes(flipped)
    try:
        read_columns(path, ["a", "b"])
        footer = read_footer(path)
        read_row_groups(path, footer, range(footer.num_row_groups), ["a", "b"])
    except DatasetError:
        pass
print(8 * (len(content) - start), "flips")
"""


def test_no_flipped_bit_of_a_footer_aborts_the_process(tmp_path):
    path = tmp_path / "x.parquet"
    # Arrow's own schema would be most of the footer.
    pq.write_table(pa.table({"a": ["x", "y"], "b": [[1.0], [2.0, 3.0]]}), path, store_schema=False)
    reader = subprocess.run(
        [sys.executable, "-c", FLIPS_OF_A_FOOTER, path], capture_output=True, text=True
    )
    assert re.fullmatch(r"\d{4,} flips\n", reader.stdout), reader.stderr


def test_lines_end_only_where_json_says_so(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"task": "a\u2028b\x85c"}\r\n\n  \n{"task": "d"}', encoding="utf-8")
    assert [*json_lines(path)] == [{"task": "a\u2028b\x85c"}, {"task": "d"}]


@pytest.mark.parametrize("line", ["{", "3", "[]", '{"a": 1} {"a": 2}', '{"a": "\\ud800"}'])
def test_a_line_that_is_no_object_is_named(tmp_path, line):
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n' + line)
    with pytest.raises(DatasetError, match=re.escape(f"{path} is damaged: line 2")):
        list(json_lines(path))


def test_a_folder_in_the_place_of_a_table_is_told(tmp_path):
    with pytest.raises(DatasetError, match=r"is not a file\. Copy"):
        read_footer(tmp_path)


def test_a_name_no_disk_can_hold_is_told(tmp_path):
    with pytest.raises(DatasetError, match="cannot be read: File name too long"):
        read_footer(tmp_path / ("x" * 5000))


def test_only_the_columns_asked_for_come_in_the_order_asked(tmp_path):
    path = tmp_path / "x.parquet"
    write_table(path, pa.table({"a": [1], "a.b": [2], "c": [3]}))
    assert read_columns(path, ["c", "a"]).column_names == ["c", "a"]


def test_lists_are_told_by_what_they_hold():
    kinds = (pa.list_(pa.large_list(pa.int8())), pa.list_(pa.int8(), 3), pa.int8())
    assert [leaf_type(kind) for kind in kinds] == [pa.int8()] * 3
    assert is_text(pa.dictionary(pa.int8(), pa.string()))
    assert not is_text(pa.binary())


def test_links_that_lead_nowhere_are_there(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    assert is_there(tmp_path / "link")
    assert not is_there(tmp_path / "gone")


def test_faults_of_values_are_told_as_those_of_their_file(tmp_path):
    told = pytest.raises(
        DatasetError,
        match=r"x\.json: 3 is no text\nCorrect it, or repair a copy: manyhands convert --repair",
    )
    with told, naming_file(tmp_path / "x.json"):
        raise ValueError("3 is no text")
