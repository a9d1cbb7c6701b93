"""Datasets to be checked, and ways to damage them."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.data.checking.check import CheckOptions, check_dataset
from manyhands.data.checking.finding import CheckResult
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.writing.output_files import SizeLimits
from manyhands.data.writing.writer import DatasetWriter
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

TOP = "observation.images.top"
AXES = ["height", "width", "channels"]
TINY_FEATURES = {
    TOP: {"dtype": "video", "shape": [16, 16, 3], "names": AXES},
    "observation.image": {"dtype": "image", "shape": [16, 16, 3], "names": AXES},
    "observation.state": {"dtype": "float32", "shape": [2], "names": None},
    "observation.grid": {"dtype": "float32", "shape": [2, 2], "names": None},
    "action": {"dtype": "float32", "shape": [2], "names": None},
    "next.done": {"dtype": "bool", "shape": [1], "names": None},
    "note": {"dtype": "string", "shape": [1], "names": None},
}


@pytest.fixture(scope="session")
def source_of() -> Callable[..., Source]:
    """A function from a folder, and some episodes of it, to a source."""

    def opened(root: Path, episodes: Sequence[int] | None = None) -> Source:
        meta = read_dataset_meta(root)
        return Source(root, meta, select_episodes(meta.episodes, episodes))

    return opened


@pytest.fixture(scope="session")
def check(source_of: Callable[..., Source]) -> Callable[..., CheckResult]:
    """A function that checks a folder in this process."""

    def checked(root: Path, episodes: Sequence[int] | None = None, **how: Any) -> CheckResult:
        return check_dataset(source_of(root, episodes), CheckOptions(num_workers=0, **how))

    return checked


@pytest.fixture(scope="session")
def rewrite() -> Callable[..., None]:
    """A function that replaces a column of a parquet file, or removes it."""

    def rewritten(path: Path, key: str, change: Callable[[list[Any]], Any] | None) -> None:
        table = pq.read_table(path)
        place = table.column_names.index(key)
        if change is None:
            changed = table.remove_column(place)
        else:
            values = change(table[key].to_pylist())
            is_array = isinstance(values, pa.Array | pa.ChunkedArray)
            column = values if is_array else pa.array(values, table[key].type)
            changed = table.set_column(place, key, column)
        pq.write_table(changed, path)

    return rewritten


@pytest.fixture(scope="session")
def change_json() -> Callable[..., None]:
    """A function that changes the document of a JSON file."""

    def changed(path: Path, change: Callable[[Any], None]) -> None:
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return changed


def record_tiny(root: Path, **options: Any) -> None:
    """Two episodes of three frames of noise."""
    chance = np.random.default_rng(0)
    with DatasetWriter.create(root, 10, TINY_FEATURES, **options) as writer:
        for number in range(6):
            writer.add_frame(
                {
                    TOP: chance.integers(0, 256, (16, 16, 3), dtype=np.uint8),
                    "observation.image": chance.integers(0, 256, (16, 16, 3), dtype=np.uint8),
                    "observation.state": chance.normal(size=2).astype(np.float32),
                    "observation.grid": chance.normal(size=(2, 2)).astype(np.float32),
                    "action": chance.normal(size=2).astype(np.float32),
                    "next.done": np.array([number % 3 == 2]),
                    "note": f"note {number}",
                    "task": f"task {number // 3}",
                }
            )
            if number % 3 == 2:
                writer.save_episode()


def rewrite_as_version_2(root: Path, old: Path) -> None:
    """The same dataset, which must have a file per episode, as version 2.1 lays it out."""
    meta = read_dataset_meta(root)
    episodes = meta.episodes
    info = json.loads((root / names.INFO_FILE).read_text()) | {
        "codebase_version": "v2.1",
        "data_path": names.V2_DATA_PATH,
        "video_path": names.V2_VIDEO_PATH,
        "chunks_size": 1000,
    }
    stats = {
        key: {name: each.tolist() for name, each in own.items()} for key, own in meta.stats.items()
    }
    numbered = range(len(episodes))
    lines = {
        names.TASK_LINES_FILE: [
            {"task_index": number, "task": task} for number, task in enumerate(meta.tasks)
        ],
        names.EPISODE_LINES_FILE: [
            {"episode_index": each, "tasks": [*episodes.tasks[each]], "length": 3}
            for each in numbered
        ],
        names.EPISODE_STATS_LINES_FILE: [
            {"episode_index": each, "stats": stats} for each in numbered
        ],
    }
    (old / "meta").mkdir(parents=True)
    (old / names.INFO_FILE).write_text(json.dumps(info))
    for file, documents in lines.items():
        (old / file).write_text("".join(f"{json.dumps(each)}\n" for each in documents))
    for each in numbered:
        place = {"episode_chunk": 0, "episode_index": each}
        _copy(root / episodes.data_files.paths[each], old / names.V2_DATA_PATH.format(**place))
        for key, files in episodes.video_files.items():
            target = names.V2_VIDEO_PATH.format(**place, video_key=key)
            _copy(root / files.paths[each], old / target)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


@pytest.fixture(scope="session")
def tiny_roots(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two tiny episodes: in files for both, in a file for each, and in version 2.1."""
    folder = tmp_path_factory.mktemp("tiny")
    together, apart, old = (folder / name for name in ("together", "apart", "old"))
    record_tiny(together)
    record_tiny(apart, limits=SizeLimits(1, 1, 1))
    rewrite_as_version_2(apart, old)
    return [together, apart, old]


@pytest.fixture
def tiny_root(tiny_roots: list[Path], tmp_path: Path) -> Path:
    """Two tiny episodes in files for both, to be damaged."""
    return Path(shutil.copytree(tiny_roots[0], tmp_path / "dataset"))
