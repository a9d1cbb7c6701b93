"""A LeRobot dataset, read sample by sample or batch by batch."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from manyhands.data.batches import ArraySpec, read_batch, window_rows
from manyhands.data.build_columns import build_columns
from manyhands.data.checking.remedies import Avoidance
from manyhands.data.checking.usable_episodes import ON_BAD, SKIP, without_bad_episodes
from manyhands.data.columns import ArrayColumn, ObjectColumn, TextColumn
from manyhands.data.delivered_stats import delivered_stats
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.location import locate_dataset, shared_home
from manyhands.data.locks import read_stamp
from manyhands.data.read_options import ReadOptions
from manyhands.data.row_index import RowIndex, find_rows
from manyhands.errors import DatasetError, naming_arguments
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.info import DatasetInfo, Feature
from manyhands.lerobot_format.dataset.meta import read_dataset_meta
from manyhands.types import Batch, Stats

Windows = Mapping[str, Sequence[int]]
"""Frame offsets by key: the key's values then have a time axis, and `<key>_is_pad` a mask."""

BOOL = np.dtype(np.bool_)


def open_dataset(
    repo_id: str | Path | None = None,
    root: Path | str | None = None,
    episodes: Sequence[int] | None = None,
    windows: Windows | None = None,
    reading: ReadOptions | None = None,
) -> "Dataset":
    """Open a dataset of any version by folder or Hub name; windows are by delivered name.

    The first argument may also be the folder.
    """
    with naming_arguments():
        folder = _locate(repo_id, root)
    reading = reading or ReadOptions()
    reading = replace(reading, home=reading.home or shared_home())
    meta = read_dataset_meta(folder)
    with naming_arguments():
        source = Source(folder, meta, select_episodes(meta.episodes, episodes))
    _check_keys("skip", reading.skip, meta.info.features)
    _check_rename_map(reading.rename_map, meta.info)
    delivered = {reading.delivered(key): each for key, each in meta.info.features.items()}
    wanted = windows or {}
    _check_keys("windows", wanted, delivered)
    for odd in meta.oddities:
        if odd.num_lost_episodes and episodes is None:
            warnings.warn(f"{folder}: {odd.message}", stacklevel=2)
    if reading.on_bad not in ON_BAD:
        raise DatasetError(f"on_bad={reading.on_bad!r}: choose from {', '.join(ON_BAD)}")
    if reading.on_bad == SKIP:
        source = _usable(source, reading)
    skipped = {reading.delivered(key) for key in reading.skip}
    offsets = {
        key: _offsets(key, wanted[key], delivered[key]) for key in wanted if key not in skipped
    }
    return Dataset(source, reading, offsets)


def _usable(source: Source, reading: ReadOptions) -> Source:
    """The source without episodes that have faults, of which a warning is given."""
    assert reading.home is not None
    keys = [key for key in source.meta.info.features if key not in reading.skip]
    usable, note = without_bad_episodes(source, keys, reading.home, Avoidance(exclude_flag=None))
    if note:
        warnings.warn(f"{source.root}: {note}", stacklevel=3)
    return usable


def _locate(repo_id: str | Path | None, root: str | Path | None) -> Path:
    if root is not None:
        return locate_dataset(None, Path(root))
    if repo_id is None:
        raise DatasetError('no dataset given. Pass its folder: open_dataset("data/pick")')
    is_folder = isinstance(repo_id, Path) or (Path(repo_id) / names.INFO_FILE).is_file()
    is_folder = is_folder or str(repo_id).startswith((".", "/", "~"))  # No name of the Hub does.
    return locate_dataset(None, Path(repo_id)) if is_folder else locate_dataset(str(repo_id))


class Dataset:
    """Samples by row; a row is a frame of the chosen episodes, counted in dataset order."""

    def __init__(
        self, source: Source, reading: ReadOptions, offsets: dict[str, np.ndarray]
    ) -> None:
        self.root = source.root
        self.meta = source.meta
        self.reading = reading
        self._selection = source.selection
        columns = build_columns(source, reading)
        self._arrays: dict[str, ArrayColumn] = {}
        self._lists: dict[str, ObjectColumn | TextColumn] = {}
        for key, column in columns.items():
            if isinstance(column, ObjectColumn | TextColumn):
                self._lists[reading.delivered(key)] = column
            else:
                self._arrays[reading.delivered(key)] = column
        self._offsets = offsets

    @property
    def source(self) -> Source:
        """The folder, and the episodes that were chosen."""
        return Source(self.root, self.meta, self._selection)

    @property
    def info(self) -> DatasetInfo:
        """The content of `meta/info.json`."""
        return self.meta.info

    @property
    def features(self) -> dict[str, Feature]:
        """Features that are read, as they are delivered."""
        return self.reading.delivered_features(self.info.features)

    @property
    def stats(self) -> Stats:
        """Statistics of the complete dataset by delivered name, whichever episodes are chosen."""
        return self.delivered_stats(self.meta.stats)

    def delivered_stats(self, stats: Stats) -> Stats:
        """Recorded statistics under delivered names, in the unit and shape of what is delivered."""
        return delivered_stats(stats, self.info.features, self.reading)

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

    @property
    def frame_bounds(self) -> np.ndarray:
        """Frames [first, end) of each chosen episode in the complete dataset, (episodes, 2)."""
        return self._selection.frame_bounds

    @property
    def windows(self) -> Mapping[str, np.ndarray]:
        """Frame offsets of the keys that have a window, by delivered name."""
        return self._offsets

    def column_values(self, key: str, frames: np.ndarray) -> np.ndarray:
        """Values of one array feature at frames of the complete dataset, without any window."""
        column = self._arrays[key]
        values = np.empty((*frames.shape, *column.shape), column.dtype)
        column.read_into(frames, values)
        return values

    @property
    def list_keys(self) -> list[str]:
        """Keys whose values are strings or lists, in a batch one per sample."""
        return list(self._lists)

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

    @property
    def version(self) -> str:
        """A hash that changes with every change of a file, also with its place."""
        table, chosen = self.meta.episodes, self._selection.episodes
        digest = blake2b(f"{self.root.resolve()}".encode(), digest_size=16)
        for files in (table.data_files, *table.video_files.values()):
            for file in np.unique(files.of_episode[chosen]):
                path = self.root / files.paths[file]
                stamp = read_stamp(path) if path.is_file() else "missing"
                digest.update(f"{path} {stamp}\n".encode())
        return digest.hexdigest()

    def _size_line(self, path: str) -> str:
        file = self.root / path
        return f"{path} {file.stat().st_size if file.is_file() else 'missing'}\n"

    def __len__(self) -> int:
        return self.num_frames

    def __repr__(self) -> str:
        size = f"{self.num_episodes} episodes, {len(self)} frames, {self.fps:g} fps"
        return f"Dataset({str(self.root)!r}: {size}; {', '.join(self.features)})"

    def __getitem__(self, index: RowIndex) -> dict[str, Any]:
        """One sample, as LeRobot's dataset returns it with uint8 images; several as a batch."""
        batch = read_batch(self, find_rows(index, len(self)))
        if isinstance(index, slice) or np.ndim(index) > 0:
            return batch
        return {key: values[0] for key, values in batch.items()}

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Samples stacked along a first axis; strings are lists."""
        rows = np.asarray(indices, dtype=np.int64).reshape(-1)
        if rows.size == 0 or rows.min() < 0 or rows.max() >= len(self):
            raise IndexError(f"rows {rows.tolist()[:8]} must be between 0 and {len(self) - 1}")
        return read_batch(self, rows)

    def layout(self, num_samples: int) -> dict[str, ArraySpec]:
        """The arrays of a batch by key."""
        layout = {}
        for key, column in self._arrays.items():
            shape = (num_samples, *self._window_axis(key), *column.shape)
            layout[key] = ArraySpec(shape, column.dtype)
            if key in self._offsets:
                mask = (num_samples, len(self._offsets[key]))
                layout[key + names.PAD_SUFFIX] = ArraySpec(mask, BOOL)
        return layout

    def fill(self, rows: np.ndarray, arrays: dict[str, np.ndarray]) -> dict[str, list[object]]:
        """Write the samples at `rows` into arrays of that layout; return strings and lists."""
        frames = self._selection.frames(rows)
        bounds = self._selection.frame_bounds[self._selection.places(rows)]
        for key, column in self._arrays.items():
            offsets = self._offsets.get(key)
            if offsets is None:
                column.read_into(frames, arrays[key])
                continue
            window = window_rows(frames, bounds, offsets)
            arrays[key + names.PAD_SUFFIX][...] = window.is_pad
            wanted = window.rows if self._window_axis(key) else window.rows[:, 0]
            column.read_into(wanted, arrays[key])
        return {key: column.read(frames) for key, column in self._lists.items()}

    def _window_axis(self, key: str) -> tuple[int, ...]:
        """The time axis of a key: none without a window, or where LeRobot drops it."""
        if key not in self._offsets:
            return ()
        length = len(self._offsets[key])
        return () if length == 1 and self._arrays[key].drops_single_axis else (length,)


def _check_rename_map(rename_map: Mapping[str, str], info: DatasetInfo) -> None:
    _check_keys("--rename_map", rename_map, info.features)
    delivered = [rename_map.get(key, key) for key in info.features]
    doubled = sorted({key for key in delivered if delivered.count(key) > 1})
    taken = [key for key in rename_map.values() if key in names.RESERVED_FEATURES]
    if doubled or taken:
        raise DatasetError(
            f"--rename_map gives several features the name {', '.join(doubled or taken)}; the "
            f"dataset has {', '.join(info.features)}"
        )


def _check_keys(argument: str, keys: Collection[str], features: Mapping[str, Feature]) -> None:
    unknown = [key for key in keys if key not in features]
    if unknown:
        raise DatasetError(
            f"{argument}: unknown feature {', '.join(unknown)}; the dataset has "
            f"{', '.join(features)}"
        )


def _offsets(key: str, offsets: Sequence[int], feature: Feature) -> np.ndarray:
    array = np.asarray(offsets)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise DatasetError(f"the window of {key} must be a list of frame offsets, not {offsets!r}")
    if not (feature.is_number or feature.is_camera):
        raise DatasetError(f"{key} has {feature.dtype} values, which cannot have a window")
    return array.astype(np.int64)
