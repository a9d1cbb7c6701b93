"""Datasets in older versions, and a comparison of datasets item by item."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from manyhands.data.dataset import open_dataset
from manyhands.data.pictures.encoder import ClipFile
from manyhands.data.pictures.packets import EncodedVideo
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset import DatasetMeta, read_dataset_meta
from manyhands.lerobot_format.episode_stats import read_episode_stats

CHUNK = 2
"""Episodes per folder."""


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def as_lists(table: pa.Table) -> pa.Table:
    """Vectors as lists of any length, which is how version 2 stores them."""
    fields = [
        field.with_type(pa.list_(field.type.value_type))
        if pa.types.is_fixed_size_list(field.type)
        else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def write_rows(root: Path, source: Path, meta: DatasetMeta) -> None:
    files = [pq.read_table(source / path) for path in meta.episodes.data_files.paths]
    whole = pa.concat_tables(files)
    for number, (start, end) in enumerate(
        zip(meta.episodes.from_index, meta.episodes.to_index, strict=True)
    ):
        place = {"episode_chunk": number // CHUNK, "episode_index": number}
        path = root / names.V2_DATA_PATH.format(**place)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(as_lists(whole.slice(start, end - start)), path)


def write_videos(root: Path, source: Path, meta: DatasetMeta) -> None:
    fps, episodes = int(meta.info.fps), meta.episodes
    for key in meta.info.video_keys:
        files = episodes.video_files[key]
        for number, length in enumerate(episodes.lengths):
            video = EncodedVideo(source / files.paths[files.of_episode[number]], fps)
            clip = video.cut(round(episodes.video_starts_s[key][number] * fps), int(length))
            place = {"episode_chunk": number // CHUNK, "episode_index": number}
            file = ClipFile(root / names.V2_VIDEO_PATH.format(video_key=key, **place), fps)
            file.append(clip)
            file.close()


def write_version_2(source: Path, root: Path, version: str = "v2.1") -> None:
    """A version 3 dataset as versions 2.0 and 2.1 lay it out."""
    meta = read_dataset_meta(source)
    write_rows(root, source, meta)
    write_videos(root, source, meta)
    document = json.loads((source / names.INFO_FILE).read_text())
    document |= {"codebase_version": version, "chunks_size": CHUNK, "fps": float(meta.info.fps)}
    document |= {"data_path": names.V2_DATA_PATH, "video_path": names.V2_VIDEO_PATH}
    (root / "meta").mkdir()
    (root / names.INFO_FILE).write_text(json.dumps(document))
    tasks = [{"task_index": number, "task": task} for number, task in enumerate(meta.tasks)]
    write_lines(root / names.TASK_LINES_FILE, tasks)
    lengths = meta.episodes.lengths.tolist()
    episodes = [
        {"episode_index": number, "tasks": tasks, "length": length}
        for number, (tasks, length) in enumerate(zip(meta.episodes.tasks, lengths, strict=True))
    ]
    write_lines(root / names.EPISODE_LINES_FILE, episodes)
    if version == "v2.0":
        return
    moments = ("min", "max", "mean", "std", "count")
    lines = []
    for number, stats in enumerate(read_episode_stats(source, meta.info) or []):
        plain = {
            key: {name: each[name].tolist() for name in moments} for key, each in stats.items()
        }
        lines.append({"episode_index": number, "stats": plain})
    write_lines(root / names.EPISODE_STATS_LINES_FILE, lines)


@pytest.fixture(scope="session")
def version_2() -> Callable[..., None]:
    """A function that writes a version 3 dataset again as version 2.0 or 2.1."""
    return write_version_2


def differences(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    """The keys under which two items differ."""
    keys = one.keys() ^ other.keys()
    for key in one.keys() & other.keys():
        first, second = one[key], other[key]
        is_same = first == second
        if isinstance(first, torch.Tensor):
            is_same = first.dtype == second.dtype and torch.equal(first, second)
        keys |= set() if is_same else {key}
    return keys


def compare(one: Path, other: Path, rows: list[int] | None = None) -> set[str]:
    """The keys under which a dataset differs from the rows of another."""
    first, second = open_dataset(root=one), open_dataset(root=other)
    rows = list(range(len(first))) if rows is None else rows
    assert len(second) == len(rows)
    pairs = [(first[row], second[place]) for place, row in enumerate(rows)]
    return set().union(*(differences(*pair) for pair in pairs))


@pytest.fixture(scope="session")
def unlike() -> Callable[..., set[str]]:
    """A function from two datasets, and rows of the first, to the keys under which they differ."""
    return compare


@pytest.fixture(scope="session")
def files_of() -> Callable[[Path], dict[str, bytes]]:
    """A function from a folder to the content of every file in it."""

    def read(root: Path) -> dict[str, bytes]:
        paths = [path for path in root.rglob("*") if path.is_file()]
        return {str(path.relative_to(root)): path.read_bytes() for path in paths}

    return read
