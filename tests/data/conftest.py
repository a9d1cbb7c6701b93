"""Small datasets recorded by our own writer, and their twins in older formats."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from manyhands.data.dataset import open_dataset
from manyhands.data.images.encoder import ClipFile
from manyhands.data.images.packets import EncodedVideo
from manyhands.data.writing.output_files import SizeLimits
from manyhands.data.writing.writer import DatasetWriter
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.episode_stats import read_episode_stats
from manyhands.lerobot_format.dataset.meta import DatasetMeta, read_dataset_meta

CHUNK = 2
Frame = dict[str, Any]
Record = Callable[..., list[Frame]]

AXES = ["height", "width", "channels"]
FEATURES = {
    "observation.images.top": {"dtype": "video", "shape": [32, 48, 3], "names": AXES},
    "observation.image": {"dtype": "image", "shape": [16, 24, 3], "names": AXES},
    "observation.state": {"dtype": "float32", "shape": [4], "names": None},
    "observation.grid": {"dtype": "float32", "shape": [2, 3], "names": None},
    "observation.counts": {"dtype": "int16", "shape": [2, 3, 2], "names": None},
    "action": {"dtype": "float64", "shape": [2], "names": ["x", "y"]},
    "next.reward": {"dtype": "float32", "shape": [1], "names": None},
    "next.done": {"dtype": "bool", "shape": [1], "names": None},
    "note": {"dtype": "string", "shape": [1], "names": None},
}


def make_picture(height: int, width: int, number: int) -> np.ndarray:
    """A smooth picture that no other number has."""
    rows, columns = np.mgrid[:height, :width] / 10
    waves = [np.sin(columns + number), np.cos(rows + 2 * number), np.sin(rows + columns - number)]
    return np.stack([127 + 100 * wave for wave in waves], axis=-1).astype(np.uint8)


def make_frame(number: int, task: str) -> Frame:
    """A frame of FEATURES."""
    numbers = np.random.default_rng(number)
    return {
        "observation.images.top": make_picture(32, 48, number),
        "observation.image": numbers.integers(0, 256, (16, 24, 3), dtype=np.uint8),
        "observation.state": numbers.normal(size=4).astype(np.float32),
        "observation.grid": numbers.normal(size=(2, 3)).astype(np.float32),
        "observation.counts": numbers.integers(-9, 9, (2, 3, 2)).astype(np.int16),
        "action": numbers.normal(size=2),
        "next.reward": np.array([number / 8], dtype=np.float32),
        "next.done": np.array([number % 3 == 0]),
        "note": f"note {number}",
        "task": task,
    }


@pytest.fixture(scope="session")
def record() -> Record:
    """A function that records episodes of the given lengths and returns their frames."""

    def recorded(root: Path, lengths: Sequence[int] = (5, 3, 6), **options: Any) -> list[Frame]:
        frames = []
        with DatasetWriter.create(root, 10, FEATURES, **options) as writer:
            for episode, length in enumerate(lengths):
                tasks = [f"task {(episode + step // 3) % 3}" for step in range(length)]
                episode_frames = [
                    make_frame(len(frames) + step, task) for step, task in enumerate(tasks)
                ]
                for frame in episode_frames:
                    writer.add_frame(frame)
                writer.save_episode()
                frames += episode_frames
        return frames

    return recorded


@pytest.fixture(scope="session")
def plain_root(record: Record, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of three episodes with 5, 3 and 6 frames; to be read only."""
    root = tmp_path_factory.mktemp("plain") / "dataset"
    record(root)
    return root


@pytest.fixture
def damaged_root(record: Record, tmp_path: Path) -> Path:
    """A dataset of two episodes in two data files each, to be damaged."""
    root = tmp_path / "dataset"
    record(root, (3, 2), limits=SizeLimits(1, 1, 1))
    return root


@pytest.fixture(scope="session")
def picture() -> Callable[[int, int, int], np.ndarray]:
    """A function from height, width and a number to a smooth picture."""
    return make_picture


@pytest.fixture(scope="session")
def features() -> dict[str, dict[str, Any]]:
    """The features of recorded datasets, in LeRobot's form."""
    return FEATURES


@pytest.fixture(scope="session")
def frame() -> Callable[[int, str], Frame]:
    """A function from a number and a task to a frame of the recorded features."""
    return make_frame


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
