"""A LeRobot dataset, read sample by sample or batch by batch."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch

from manyhands.data.assembly import build_columns
from manyhands.data.columns import Column
from manyhands.data.location import locate_dataset
from manyhands.data.selection import Source, select_episodes
from manyhands.data.windows import window_rows
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset import read_dataset_meta
from manyhands.lerobot_format.dataset_info import DatasetInfo
from manyhands.types import Batch, Stats

Windows = Mapping[str, Sequence[int]]
"""Frame offsets by key: the key's values then have a time axis, and `<key>_is_pad` a mask."""


def open_dataset(
    repo_id: str | None = None,
    root: Path | str | None = None,
    episodes: Sequence[int] | None = None,
    windows: Windows | None = None,
    skip: Collection[str] = (),
) -> "Dataset":
    """Open a dataset by folder or Hub name; keys in `skip` are left out and never read."""
    folder = locate_dataset(repo_id, None if root is None else Path(root))
    meta = read_dataset_meta(folder)
    wanted = windows or {}
    _check_keys("skip", skip, meta.info)
    _check_keys("windows", wanted, meta.info)
    selection = select_episodes(meta.episodes, episodes)
    offsets = {key: _offsets(key, wanted[key], meta.info) for key in wanted if key not in skip}
    source = Source(folder, meta, selection)
    return Dataset(source, build_columns(source, skip), offsets)


class Dataset:
    """Samples by row; a row is a frame of the chosen episodes, counted in dataset order."""

    def __init__(
        self, source: Source, columns: dict[str, Column], offsets: dict[str, np.ndarray]
    ) -> None:
        self.root = source.root
        self.meta = source.meta
        self._selection = source.selection
        self._columns = columns
        self._offsets = offsets

    @property
    def info(self) -> DatasetInfo:
        """What `meta/info.json` says."""
        return self.meta.info

    @property
    def stats(self) -> Stats:
        """Statistics of the whole dataset, whichever episodes are chosen."""
        return self.meta.stats

    @property
    def fps(self) -> float:
        """Frames per second."""
        return self.meta.info.fps

    @property
    def num_frames(self) -> int:
        """Frames in the chosen episodes."""
        return self._selection.num_rows

    @property
    def num_episodes(self) -> int:
        """Chosen episodes."""
        return len(self._selection.episodes)

    @property
    def episodes(self) -> np.ndarray:
        """Numbers of the chosen episodes in the dataset."""
        return self._selection.episodes

    @property
    def episode_bounds(self) -> np.ndarray:
        """Rows [first, end) of each chosen episode, of shape (episodes, 2)."""
        return self._selection.bounds

    @cached_property
    def fingerprint(self) -> str:
        """A short hash of the metadata and of the sizes of all files it names."""
        digest = blake2b(digest_size=8)
        for path in sorted((self.root / "meta").rglob("*")):
            if path.is_file():
                digest.update(f"{path.relative_to(self.root).as_posix()}\n".encode())
                digest.update(path.read_bytes())
        table = self.meta.episodes
        for files in (table.data_files, *table.video_files.values()):
            digest.update("".join(self._size_line(path) for path in files.paths).encode())
        return digest.hexdigest()

    def _size_line(self, path: str) -> str:
        file = self.root / path
        return f"{path} {file.stat().st_size if file.is_file() else 'missing'}\n"

    def __len__(self) -> int:
        return self.num_frames

    def __getitem__(self, index: int) -> dict[str, Any]:
        """One sample, as LeRobot's dataset returns it with uint8 images."""
        position = index + len(self) if index < 0 else index
        return {key: values[0] for key, values in self.batch([position]).items()}

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Samples stacked along a first axis; texts are lists."""
        rows = np.asarray(indices, dtype=np.int64).reshape(-1)
        if rows.size == 0 or rows.min() < 0 or rows.max() >= len(self):
            raise IndexError(f"rows {rows.tolist()[:8]} must lie within 0 to {len(self) - 1}")
        bounds = self.episode_bounds[self._selection.places(rows)]
        batch: Batch = {}
        for key, column in self._columns.items():
            offsets = self._offsets.get(key)
            if offsets is None:
                batch[key] = column.read(rows)
                continue
            window = window_rows(rows, bounds, offsets)
            single = column.drops_single_axis and len(offsets) == 1
            batch[key] = column.read(window.rows[:, 0] if single else window.rows)
            batch[key + names.PAD_SUFFIX] = torch.from_numpy(window.is_pad)
        return batch


def _check_keys(argument: str, keys: Collection[str], info: DatasetInfo) -> None:
    unknown = [key for key in keys if key not in info.features]
    if unknown:
        raise DatasetError(
            f"{argument} names {', '.join(unknown)}; the dataset has {', '.join(info.features)}"
        )


def _offsets(key: str, offsets: Sequence[int], info: DatasetInfo) -> np.ndarray:
    array = np.asarray(offsets)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise DatasetError(f"the window of {key} must be a list of frame offsets, not {offsets!r}")
    feature = info.features[key]
    if not (feature.is_number or feature.is_camera):
        raise DatasetError(f"{key} holds {feature.dtype} values, which cannot have a window")
    return array.astype(np.int64)
