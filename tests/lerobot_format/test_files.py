"""Files are read strictly and written whole."""

import pytest
import torch

from manyhands.errors import CheckpointError
from manyhands.lerobot_format.files import (
    read_json,
    read_tensors,
    write_tensors,
)


def test_tensors_come_back_as_they_were(tmp_path):
    path = tmp_path / "a.safetensors"
    tensors = {"matrix": torch.randn(3, 4).T, "scalar": torch.tensor(2.5)}
    write_tensors(path, tensors)
    read = read_tensors(path)
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], value) for name, value in tensors.items())


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
    with pytest.raises(CheckpointError, match="damaged or no safetensors file"):
        read_tensors(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe"])
def test_a_broken_json_file_is_named(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"a\.json"):
        read_json(path)


def test_missing_files_are_named(tmp_path):
    for read in (read_json, read_tensors):
        with pytest.raises(CheckpointError, match="nothing is missing"):
            read(tmp_path / "nothing")
