"""Disk space of a checkpoint, in blocks of the filesystem."""

import os
from pathlib import Path

from manyhands.checkpoint.shards import shard_num_bytes
from manyhands.checkpoint.snapshot import Snapshot
from manyhands.lerobot_format.checkpoint import flat_state
from manyhands.lerobot_format.files import tensors_num_bytes

ENTRY_BYTES = 512
"""Maximal size of a file's manifest entry."""


def tensor_files_bytes(snapshot: Snapshot, num_shards: int, block: int) -> int:
    """Disk space of the files with weights and optimizer state, and their manifest entries.

    The main rank's shard is the largest.
    """
    sizes = [tensors_num_bytes(weights) for weights in snapshot.policies.values() if weights]
    if not snapshot.state.is_sharded:
        sizes.append(tensors_num_bytes(flat_state(snapshot.state.optimizer.get("state", {}))))
    if snapshot.parts:
        sizes += [shard_num_bytes(snapshot.parts)] * num_shards
    entries = _in_blocks(len(sizes) * ENTRY_BYTES, block)
    return sum(_in_blocks(size, block) for size in sizes) + entries


def allocated_bytes(folder: Path) -> int:
    """Disk space of a folder and everything in it."""
    block = block_bytes(folder)
    return sum(_in_blocks(path.stat().st_size, block) for path in (folder, *folder.rglob("*")))


def block_bytes(folder: Path) -> int:
    """The block size of a filesystem."""
    return os.statvfs(folder).f_frsize


def _in_blocks(size: int, block: int) -> int:
    return -(-size // block) * block
