"""A folder that is not what its manifest says is found out."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.manifest import (
    MANIFEST,
    ManifestFault,
    describe_folder,
    find_damage,
    manifest_text,
    read_manifest,
)

FILES = {"a.bin": b"weights", "deep/b.json": b"{}", "deep/empty": b""}


def folder_of(folder: Path) -> Path:
    """A folder with files and their manifest."""
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / MANIFEST).write_text(manifest_text({"step": 3}, describe_folder(folder)))
    return folder


def test_a_folder_as_it_was_written_is_whole(tmp_path):
    folder = folder_of(tmp_path)
    assert find_damage(folder) is None
    facts, entries = read_manifest(folder)
    assert facts == {"step": 3}
    assert {name: entry.num_bytes for name, entry in entries.items()} == {
        name: len(content) for name, content in FILES.items()
    }


@given(st.data())
def test_every_flipped_bit_is_found_and_its_file_named(tmp_path_factory, data):
    folder = folder_of(tmp_path_factory.mktemp("manifest"))
    name = data.draw(st.sampled_from(["a.bin", "deep/b.json", MANIFEST]))
    content = bytearray((folder / name).read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    (folder / name).write_bytes(content)
    assert str(folder / name) in str(find_damage(folder))


@pytest.mark.parametrize("name", ["a.bin", "deep/empty", MANIFEST])
def test_a_missing_file_is_named(tmp_path, name):
    folder = folder_of(tmp_path)
    (folder / name).unlink()
    assert str(folder / name) in str(find_damage(folder))


def test_a_cut_file_tells_how_much_is_left(tmp_path):
    folder = folder_of(tmp_path)
    (folder / "a.bin").write_bytes(b"wei")
    assert "has 3 of 7 bytes" in str(find_damage(folder))


@pytest.mark.parametrize("text", ["", "[]", "null", '{"files": 3}', '{"sha256": "x", "files": {}}'])
def test_what_is_no_manifest_is_not_trusted(tmp_path, text):
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(ManifestFault, match="is invalid"):
        read_manifest(tmp_path)


def test_files_that_came_later_do_not_matter(tmp_path):
    folder = folder_of(tmp_path)
    (folder / "notes.txt").write_text("mine")
    assert find_damage(folder) is None
