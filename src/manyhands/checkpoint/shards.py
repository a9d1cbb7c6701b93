"""Shard files, one per rank, which any number of ranks can read.

The files have the safetensors format of torch's distributed checkpoint: torch finds and assembles
the slices that a rank needs, whatever number of ranks saved them.
"""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from manyhands.atomic import fsync_path
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.files import tensors_num_bytes, write_tensors_in_place
from manyhands.parallel.sharded_tensors import TensorShard

OFFSETS_KEY, OFFSETS = "DCP_SHARDING_INFO", "saved_offsets"
"""Keys of torch's reader for the offsets of a shard."""


def shard_file(folder: Path, rank: int, num_ranks: int) -> Path:
    """The file of one rank, with the number of ranks in its name."""
    return folder / f"shard-{rank + 1:05d}-of-{num_ranks:05d}.safetensors"


def write_shard(file: Path, parts: Mapping[str, TensorShard]) -> None:
    """Write the shards of one rank."""
    write_tensors_in_place(
        file, {name: part.values for name, part in parts.items()}, _metadata(parts)
    )
    fsync_path(file)


def shard_num_bytes(parts: Mapping[str, TensorShard]) -> int:
    """The file size of the shards of one rank."""
    return tensors_num_bytes({name: part.values for name, part in parts.items()}, _metadata(parts))


def _metadata(parts: Mapping[str, TensorShard]) -> dict[str, str]:
    offsets = {name: {OFFSETS: list(part.offsets)} for name, part in parts.items()}
    return {OFFSETS_KEY: json.dumps(offsets), "format": "pt"}


class Shards:
    """The shards of all ranks of a checkpoint."""

    def __init__(self, folder: Path) -> None:
        # Torch's reader takes a second to import, and most runs have no shards to read.
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
        from torch.distributed.checkpoint.metadata import TensorStorageMetadata

        self.folder = folder
        check_complete(folder)
        try:
            metadata = HuggingFaceStorageReader(str(folder)).read_metadata()
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise CheckpointError(f"a file in {folder} is damaged: {error}") from None
        self._tensors = {
            name: found
            for name, found in metadata.state_dict_metadata.items()
            if isinstance(found, TensorStorageMetadata)
        }
        self.shapes = {name: found.size for name, found in self._tensors.items()}

    def read_folder(self, name: str) -> dict[str, Tensor]:
        """Full tensors of one folder, by their names in it."""
        found = {
            key: torch.empty(tensor.size, dtype=tensor.properties.dtype)
            for key, tensor in self._tensors.items()
            if key.startswith(f"{name}/")
        }
        self.read_into(found)
        return {key.removeprefix(f"{name}/"): value for key, value in found.items()}

    def read_into(self, targets: Mapping[str, Tensor]) -> None:
        """Fill full tensors, or this rank's shards, with the saved values of their names."""
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
        from torch.distributed.checkpoint.state_dict_loader import load

        for name, value in targets.items():
            if self.shapes.get(name) != value.shape:
                raise CheckpointError(
                    f"{self.folder} has {name} as {_describe(self.shapes.get(name))}, but this run "
                    f"needs {_describe(value.shape)}: the checkpoint belongs to another policy"
                )
        try:
            reader = HuggingFaceStorageReader(str(self.folder))
            with warnings.catch_warnings():
                # Every rank reads on its own, on purpose.
                warnings.simplefilter("ignore", UserWarning)
                load(dict(targets), storage_reader=reader, no_dist=True)
        except (CheckpointException, SafetensorError, OSError, ValueError) as error:
            raise CheckpointError(f"a file in {self.folder} is damaged: {error}") from None


def check_complete(folder: Path) -> None:
    """Reject a folder without the file of some rank; the error names the file."""
    found = sorted(folder.glob("shard-*-of-*.safetensors"))
    num_ranks = int(found[0].stem.rpartition("-")[2]) if found else 1
    for rank in range(num_ranks):
        file = shard_file(folder, rank, num_ranks)
        if file not in found:
            raise CheckpointError(f"{file} is missing. Copy the checkpoint again, or use another")


def _describe(shape: torch.Size | None) -> str:
    return "nothing" if shape is None else "x".join(map(str, shape)) or "a scalar"
