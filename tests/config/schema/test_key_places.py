"""Lines of keys in configuration files."""

from manyhands.config.schema.key_places import key_place

TEXT = """steps: 5
policy:
  type: act
  chunk_size: 8
optimizer.lr: 1
"""


def test_nested_keys_and_keys_with_dots_have_their_line(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(TEXT)
    lines = {"steps": 1, "policy": 2, "policy.chunk_size": 4, "optimizer.lr": 5}
    for name, line in lines.items():
        assert key_place(file, name) == f"{file}, line {line}"


def test_what_the_file_does_not_have_is_nowhere(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(TEXT)
    assert key_place(file, "policy.lr") is None
    assert key_place(tmp_path / "none.yaml", "steps") is None
    file.write_text("a: b: c")
    assert key_place(file, "a") is None


def test_json_has_lines_too(tmp_path):
    file = tmp_path / "run.json"
    file.write_text('{\n  "steps": 5,\n  "policy": {"type": "act"}\n}')
    assert key_place(file, "policy.type") == f"{file}, line 3"
