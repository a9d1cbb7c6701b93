"""RLDS episodes as TensorFlow Datasets stores them: features.json, and one record per episode."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from manyhands.data.importing.chunked_rows import joined_frames
from manyhands.data.importing.hdf5_episodes import decoded
from manyhands.data.importing.source import Column, Frame
from manyhands.data.importing.tfrecord import parse_example, read_record, record_offsets
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.files import read_json

FORMAT = "rlds"
_FEATURES_FILE = "features.json"
_INFO_FILE = "dataset_info.json"
_STEPS = "steps"
_USUAL_SPLIT = "train"


class RldsEpisodes:
    """The records of one split; their shards are only read record by record."""

    format = FORMAT
    fps: float | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        folder = rlds_folder(path)
        assert folder is not None
        split = _split(folder)
        self.files = sorted(folder.glob(f"*-{split['name']}.tfrecord*"))
        if not self.files:
            raise DatasetError(f"{folder} has no file *-{split['name']}.tfrecord*")
        self._records = _records(self.files, split)
        self.num_episodes = len(self._records)
        document = read_json(folder / _FEATURES_FILE, DatasetError)
        self._encoded: set[str] = set()
        with _naming(folder / _FEATURES_FILE):
            self.columns = self._columns(document)
        self.notes = [*_notes(folder, split["name"])]

    def frames(self, episode: int, columns: Collection[str]) -> Iterator[Frame]:
        """Yield the frames of an episode, with the given columns."""
        example = self._example(episode)
        length = self._length(example, episode)
        yield from joined_frames(
            {
                name: self._rows(example, name, length, episode)
                for name in self.columns
                if name in columns
            }
        )

    def _example(self, episode: int) -> dict[str, Any]:
        path, offset = self._records[episode]
        return parse_example(read_record(path, offset))

    def _length(self, example: Mapping[str, Any], episode: int) -> int:
        lengths = {
            name: len(example[name]) // int(np.prod(self._stored_shape(name)))
            for name in self.columns
            if name.startswith(_STEPS) and name in example
        }
        if len(set(lengths.values())) != 1:
            shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise DatasetError(f"{self.path}, episode {episode}: columns differ in length: {shown}")
        return next(iter(lengths.values()))

    def _stored_shape(self, name: str) -> tuple[int, ...]:
        return () if name in self._encoded else self.columns[name].shape

    def _rows(
        self, example: Mapping[str, Any], name: str, length: int, episode: int
    ) -> Iterator[Any]:
        if name not in example:
            raise DatasetError(f"{self.path}, episode {episode}: {name} is missing")
        values, column = example[name], self.columns[name]
        if name in self._encoded:
            return map(decoded, values)
        if column.is_text:
            texts = [each.decode("utf-8", "replace") for each in values]
            return iter(texts if name.startswith(_STEPS) else texts[:1] * length)
        numbers = np.asarray(values).reshape(length, *column.shape)
        return iter(numbers.astype(column.dtype))

    def _columns(self, document: Mapping[str, Any]) -> dict[str, Column]:
        first = self._example(0)
        columns = {}
        for name, kind, leaf in _leaves(document, ""):
            if name not in first or not len(first[name]):
                continue
            if kind == "image" and leaf.get("dtype", "uint8") == "uint8":
                self._encoded.add(name)
                columns[name] = Column("uint8", decoded(first[name][0]).shape)
            elif kind == "text":
                columns[name] = Column(names.STRING, ())
            elif (
                kind == "tensor" and name.startswith(_STEPS) and isinstance(first[name], np.ndarray)
            ):
                columns[name] = Column(str(np.dtype(leaf["dtype"])), _shape(leaf))
        if not any(name.startswith(_STEPS) for name in columns):
            raise DatasetError(f"{self.path}: {_FEATURES_FILE} describes no {_STEPS} to import")
        return columns


def rlds_folder(path: Path) -> Path | None:
    """The folder of a dataset version at or below a path; None if there is none or several."""
    if (path / _FEATURES_FILE).is_file():
        return path
    found = [*path.glob(f"*/{_FEATURES_FILE}"), *path.glob(f"*/*/{_FEATURES_FILE}")]
    return found[0].parent if len(found) == 1 else None


def _split(folder: Path) -> dict[str, Any]:
    """The split to import: `train`, or the only one there is."""
    splits = read_json(folder / _INFO_FILE, DatasetError).get("splits")
    if not isinstance(splits, list) or not splits or not all("name" in each for each in splits):
        raise DatasetError(f"{folder / _INFO_FILE}: it declares no splits")
    usual = [each for each in splits if each["name"] == _USUAL_SPLIT]
    chosen: dict[str, Any] = (usual or splits)[0]
    return chosen


def _notes(folder: Path, split: str) -> Iterator[str]:
    splits = read_json(folder / _INFO_FILE, DatasetError)["splits"]
    others = [each["name"] for each in splits if each["name"] != split]
    if others:
        yield f"the split {split} is imported, {', '.join(others)} not"


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DatasetError(f"{path} is not as TensorFlow Datasets writes it: {reason}") from None


def _records(files: Sequence[Path], split: Mapping[str, Any]) -> list[tuple[Path, int]]:
    found = [(path, offset) for path in files for offset in record_offsets(path)]
    with _naming(files[0].parent / _INFO_FILE):
        declared = sum(int(length) for length in split.get("shardLengths", ()))
    if declared and declared != len(found):
        raise DatasetError(
            f"{files[0].parent}: {_INFO_FILE} declares {declared} episodes of the split "
            f"{split['name']}, but its files have {len(found)}. Copy or download the dataset again"
        )
    return found


def _leaves(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield path, kind and description of every feature without a length of its own."""
    inner = node.get("featuresDict", {}).get("features", {})
    for name, each in inner.items():
        yield from _leaves(each, f"{path}/{name}" if path else name)
    if "sequence" in node and path == _STEPS:
        yield from _leaves(node["sequence"]["feature"], path)
    for kind in ("image", "text", "tensor"):
        if kind not in node:
            continue
        leaf = node[kind]
        is_text = kind == "text" or leaf.get("dtype") == "string"
        if is_text and not _shape(leaf):
            yield path, "text", leaf
        elif kind == "image" or (not is_text and min(_shape(leaf), default=1) > 0):
            yield path, kind, leaf


def _shape(leaf: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(size) for size in leaf.get("shape", {}).get("dimensions", ()))
