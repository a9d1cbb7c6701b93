"""Parts of tensors, saved by their ranks and put together."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyhands.checkpoint.shards import Shards, shard_file, write_shard
from manyhands.errors import CheckpointError
from manyhands.parallel.sharded_tensors import TensorShard


def save_rows(folder: Path, values: torch.Tensor, cuts: list[int]) -> None:
    """Save a tensor in rows, cut as given, by one rank each."""
    ends = [*cuts, len(values)]
    for rank, (start, end) in enumerate(zip([0, *cuts], ends, strict=True)):
        part = TensorShard(values[start:end].contiguous(), (start, 0))
        parts = {"weight": part} if end > start else {}
        if rank == 0:
            parts |= {
                "step": TensorShard(torch.tensor(3.0), ()),
                "a/b": TensorShard(torch.arange(2), (0,)),
            }
        write_shard(shard_file(folder, rank, len(ends)), parts)


@given(num_rows=st.integers(1, 7), cuts=st.lists(st.integers(0, 7), max_size=3))
def test_parts_make_the_tensor_they_were_cut_from(tmp_path_factory, num_rows, cuts):
    folder = tmp_path_factory.mktemp("shards")
    values = torch.randn(num_rows, 3, dtype=torch.float64)
    save_rows(folder, values, sorted(min(cut, num_rows) for cut in cuts))
    shards = Shards(folder)
    assert shards.shapes == {"weight": (num_rows, 3), "step": (), "a/b": (2,)}
    found = {"weight": torch.zeros_like(values), "step": torch.tensor(0.0)}
    shards.read_into(found)
    assert torch.equal(found["weight"], values)
    assert found["step"] == 3.0
    assert torch.equal(shards.read_folder("a")["b"], torch.arange(2))


@pytest.fixture
def folder(tmp_path) -> Path:
    save_rows(tmp_path, torch.randn(6, 3), [2, 4])
    return tmp_path


def test_a_missing_file_is_named(folder):
    shard_file(folder, 1, 3).unlink()
    with pytest.raises(CheckpointError, match=r"shard-00002-of-00003\.safetensors is missing"):
        Shards(folder)


def test_an_empty_folder_is_told(tmp_path):
    with pytest.raises(CheckpointError, match="is missing"):
        Shards(tmp_path)


def test_a_cut_file_is_told(folder):
    file = shard_file(folder, 2, 3)
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(CheckpointError, match="damaged"):
        Shards(folder).read_into({"weight": torch.zeros(6, 3)})


@pytest.mark.parametrize(
    ("name", "shape", "told"), [("weight", (5, 3), "6x3.*5x3"), ("other", (1,), "nothing")]
)
def test_what_does_not_fit_is_told(folder, name, shape, told):
    with pytest.raises(CheckpointError, match=f"{name} as {told}"):
        Shards(folder).read_into({name: torch.zeros(shape)})
