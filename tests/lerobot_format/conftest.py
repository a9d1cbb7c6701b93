"""Metadata of one small dataset in every version that can be read."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.episode_stats import read_episode_stats
from manyhands.lerobot_format.dataset.episodes import EpisodeRecord, Placement, write_episodes
from manyhands.lerobot_format.dataset.info import DatasetInfo, Feature, write_info
from manyhands.lerobot_format.dataset.meta import read_stats, write_stats
from manyhands.lerobot_format.dataset.statistics import aggregate_stats
from manyhands.lerobot_format.dataset.tasks import write_tasks
from manyhands.types import Stats

LENGTHS = (4, 3, 2)
TOP, DEPTH = "observation.images.top", "observation.depth"
FEATURES = {
    "observation.state": Feature("float32", (2,), {"motors": ["x", "y"]}),
    "observation.grid": Feature("float32", (2, 3)),
    TOP: Feature("video", (4, 6, 3), ["height", "width", "channels"], {"video.fps": 10}),
    DEPTH: Feature("video", (4, 6, 1), None, {"is_depth_map": True, "depth_unit": "mm"}),
    "action": Feature("float32", (2,), ["x", "y"]),
    "next.done": Feature("bool", (1,)),
    "language_events": Feature("language", (1,)),
    **{key: Feature(dtype, (1,)) for key, dtype in names.RESERVED_FEATURES.items()},
}
TASKS = ["push", "pull\u2028und schieße"]


def episode_stats(number: int) -> Stats:
    """Made-up statistics, in the shapes of LeRobot's recorder."""
    stats: Stats = {}
    for key, feature in FEATURES.items():
        if feature.is_camera:
            shape: tuple[int, ...] = (feature.shape[2], 1, 1)
        elif feature.is_number and key not in names.RESERVED_FEATURES:
            shape = feature.shape[-1:]
        else:
            continue
        values = {name: np.full(shape, number + 0.5) for name in ("min", "max", "mean", "q50")}
        stats[key] = values | {"std": np.ones(shape), "count": np.array([LENGTHS[number]])}
    return stats


def write_version_3(root: Path) -> None:
    """The metadata as this package writes it."""
    ends = np.cumsum(LENGTHS).tolist()
    records = []
    for number, (length, end) in enumerate(zip(LENGTHS, ends, strict=True)):
        start = end - length
        videos = {key: Placement(0, 0, start / 10, end / 10) for key in (TOP, DEPTH)}
        tasks, stats = TASKS[: 1 + number % 2], episode_stats(number)
        records.append(EpisodeRecord(tasks, start, end, (0, number // 2), stats, videos))
    totals = {"total_episodes": len(LENGTHS), "total_frames": ends[-1], "total_tasks": len(TASKS)}
    write_info(root, DatasetInfo("v3.0", 10, FEATURES, **totals, splits={"train": "0:3"}))
    write_tasks(root, TASKS)
    write_episodes(root, records)
    write_stats(root, aggregate_stats([record.stats for record in records]))


def write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """One JSON object per line."""
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    path.write_text("".join(lines), encoding="utf-8")


def write_version_2(root: Path, source: Path, version: str) -> None:
    """The metadata of a version 3 folder as version 2.0 or 2.1 lays it out."""
    info = json.loads((source / names.INFO_FILE).read_text(encoding="utf-8"))
    for key in ("data_files_size_in_mb", "video_files_size_in_mb"):
        del info[key]
    info |= {"codebase_version": version, "fps": 10.0, "total_videos": 6, "total_chunks": 2}
    info |= {"chunks_size": 2, "data_path": names.V2_DATA_PATH, "video_path": names.V2_VIDEO_PATH}
    info["features"][TOP]["video_info"] = info["features"][TOP].pop("info")
    (root / "meta").mkdir(parents=True)
    (root / names.INFO_FILE).write_text(json.dumps(info, indent=4), encoding="utf-8")
    tasks = [{"task_index": number, "task": task} for number, task in enumerate(TASKS)]
    write_lines(root / names.TASK_LINES_FILE, tasks)
    episodes = [
        {"episode_index": number, "tasks": TASKS[: 1 + number % 2], "length": length}
        for number, length in enumerate(LENGTHS)
    ]
    write_lines(root / names.EPISODE_LINES_FILE, episodes)
    if version == "v2.0":
        write_stats(root, read_stats(source))
        return
    parts = read_episode_stats(source, DatasetInfo("v3.0", 10, FEATURES))
    assert parts is not None
    stats = [
        {"episode_index": number, "stats": jsonable(part)} for number, part in enumerate(parts)
    ]
    write_lines(root / names.EPISODE_STATS_LINES_FILE, stats)


def jsonable(stats: Stats) -> dict[str, Any]:
    """Statistics as version 2.1 writes them: no quantiles, all dimensions, truth values as such."""
    document: dict[str, Any] = {
        key: {name: value.tolist() for name, value in values.items() if name != "q50"}
        for key, values in stats.items()
    }
    document["next.done"] |= {"min": [False], "max": [True]}
    grid = document["observation.grid"]
    grid |= {name: [value, value] for name, value in grid.items() if name != "count"}
    return document


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """For each version, the content of every file by its path inside the dataset folder."""
    folder = tmp_path_factory.mktemp("versions")
    write_version_3(folder / "v3.0")
    for version in ("v2.0", "v2.1"):
        write_version_2(folder / version, folder / "v3.0", version)
    return {
        root.name: {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
        for root in folder.iterdir()
    }


@pytest.fixture
def plant(trees: dict[str, dict[str, bytes]], tmp_path: Path) -> Callable[[str], Path]:
    """Writes the dataset's metadata in a version; returns the folder."""

    def write(version: str) -> Path:
        root = tmp_path / version
        for name, content in trees[version].items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
        return root

    return write
