"""Files of any content are read, or refused, in little time and memory."""

import json

import pytest
import yaml

from manyhands.config.files.documents import MAX_BYTES, read_document

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
MERGES = "a0: &a0 {x: 1, y: 2}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (BOMB, "its aliases .* repeat more than 1,000,000 values"),
        (MERGES, "its aliases .* repeat more than 1,000,000 values"),
        ("a: &a [*a]", "its aliases"),
        ("[" * 10_000, "nested too deeply"),
        ("a: " + "9" * 5000, "limit"),
        ("a: 2026-13-45", "month"),
        ("a: [", "expected"),
        ("a" * (MAX_BYTES + 1), "larger than 1,048,576 bytes"),
    ],
)
def test_a_hostile_file_is_refused(tmp_path, content, told):
    file = tmp_path / "run.yaml"
    file.write_text(content)
    with pytest.raises(ValueError, match=told):
        read_document(file)


def test_a_deeply_nested_json_file_is_refused(tmp_path):
    file = tmp_path / "run.json"
    file.write_text('{"a": ' + "[" * 200_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_document(file)


@pytest.mark.parametrize(
    "content",
    ["", "a: 1\nb: [1, 2]\n", "a: &a {x: 1}\nb: *a\nc:\n  <<: *a\n  y: 2\n", "a: 2026-01-31"],
)
def test_other_files_are_read_as_yaml_is(tmp_path, content):
    file = tmp_path / "run.yaml"
    file.write_text(content)
    assert read_document(file) == yaml.safe_load(content)


def test_json_may_be_long_and_a_little_wrong(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"episodes": [*range(300_000)]}))
    assert len(read_document(file)["episodes"]) == 300_000
    file.write_text('{"a": 1,}')
    assert read_document(file) == {"a": 1}
