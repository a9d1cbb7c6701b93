"""Files are read strictly and written whole."""

import errno
import os

import pytest
import torch

from manyhands.errors import CheckpointError
from manyhands.lerobot_format.files import (
    parse_json,
    read_json,
    read_tensors,
    read_text,
    tensors_num_bytes,
    write_tensors,
)


def test_tensors_come_back_as_they_were(tmp_path):
    path = tmp_path / "a.safetensors"
    tensors = {"matrix": torch.randn(3, 4).T, "scalar": torch.tensor(2.5)}
    write_tensors(path, tensors)
    read = read_tensors(path)
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], value) for name, value in tensors.items())


def test_a_disk_that_is_full_is_a_fault_of_the_system(tmp_path, small_files):
    path = tmp_path / "a.safetensors"
    with small_files(1000), pytest.raises(OSError) as raised:
        write_tensors(path, {"vector": torch.ones(1000)})
    assert raised.value.errno == errno.EFBIG
    assert "a.safetensors" in str(raised.value.filename)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.int64])
def test_the_size_of_a_file_of_tensors_is_known_before_it_is_written(tmp_path, dtype):
    path = tmp_path / "a.safetensors"
    tensors = {f"blöcke.{n}.w": torch.zeros(n, 9 * n, dtype=dtype) for n in range(40)}
    write_tensors(path, tensors, metadata={"format": "pt"})
    size = tensors_num_bytes(tensors, {"format": "pt"})
    assert 0 <= size - path.stat().st_size <= 5 * len(tensors) + 8


@pytest.mark.parametrize("keep", [0, 5, 40, -3])
def test_a_truncated_tensor_file_is_named(tmp_path, keep):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"vector": torch.ones(100)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=r"a\.safetensors is damaged"):
        read_tensors(path)


def test_a_pickle_under_a_safetensors_name_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    torch.save({"vector": torch.ones(3)}, path)
    with pytest.raises(CheckpointError, match="damaged or not a safetensors file"):
        read_tensors(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b'{"a":' * 100_000])
def test_a_broken_json_file_is_named(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"a\.json"):
        read_json(path)


def test_missing_files_are_named(tmp_path):
    for read in (read_json, read_tensors):
        with pytest.raises(CheckpointError, match="nothing is missing"):
            read(tmp_path / "nothing")


def test_what_is_no_file_is_not_waited_for(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(CheckpointError, match=f"{name} is not a file"):
            read_text(tmp_path / name)


def test_a_link_in_a_circle_is_told(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "a")
    with pytest.raises(CheckpointError, match="a cannot be read: Too many levels"):
        read_text(tmp_path / "a")


@pytest.mark.parametrize("text", ['"\\ud800"', '{"\\udfff": 1}', "[" * 100_000, "1" * 5000, "tru"])
def test_texts_that_nothing_can_be_done_with_are_no_json(text):
    with pytest.raises(
        ValueError, match=r"surrogates|too deeply|Exceeds the limit|Expecting value"
    ):
        parse_json(text)


def test_whole_characters_may_be_escaped():
    assert parse_json('"\\ud83e\\udd16 \\u00e9"') == "\U0001f916 é"
