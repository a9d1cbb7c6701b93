"""Datasets of versions 2.0 and 2.1."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.info import DatasetInfo, read_info
from manyhands.lerobot_format.dataset.meta import read_dataset_meta
from manyhands.lerobot_format.dataset.version2 import (
    read_episodes,
    read_stats,
    read_tasks,
    stats_lines,
)

TOP = "observation.images.top"


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def write_lines(path: Path, lines: list[Any]) -> None:
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")


@pytest.mark.parametrize("version", ["v2.0", "v2.1"])
def test_every_episode_has_files_of_its_own(plant, version):
    episodes = read_dataset_meta(plant(version)).episodes
    assert episodes.from_index.tolist() == [0, 4, 7]
    assert episodes.to_index.tolist() == [4, 7, 9]
    assert episodes.data_files.paths == (
        "data/chunk-000/episode_000000.parquet",
        "data/chunk-000/episode_000001.parquet",
        "data/chunk-001/episode_000002.parquet",
    )
    assert episodes.data_files.of_episode.tolist() == [0, 1, 2]
    assert episodes.video_files[TOP].paths[2] == f"videos/chunk-001/{TOP}/episode_000002.mp4"
    assert episodes.video_starts_s[TOP].tolist() == [0, 0, 0]
    assert episodes.first_rows_in_file().tolist() == [0, 0, 0]


@pytest.mark.parametrize("version", ["v2.0", "v2.1"])
def test_the_rest_is_as_in_version_3(plant, version):
    meta, other = read_dataset_meta(plant(version)), read_dataset_meta(plant("v3.0"))
    assert meta.info.codebase_version == version
    assert meta.info.fps == other.info.fps
    assert meta.info.features.keys() == other.info.features.keys()
    assert meta.tasks == other.tasks
    assert meta.episodes.tasks == other.episodes.tasks
    assert meta.episodes.lengths.tolist() == other.episodes.lengths.tolist()
    assert meta.stats.keys() == other.stats.keys()
    for key in ("action", TOP):
        for name in ("mean", "std", "count"):
            assert meta.stats[key][name].tolist() == other.stats[key][name].tolist()


def test_facts_of_older_recorders_are_found(plant):
    feature = read_info(plant("v2.1")).features[TOP]
    assert feature.info == {"video.fps": 10}
    assert not feature.is_depth


def test_paths_may_be_left_to_their_defaults(plant):
    root = plant("v2.1")
    info = json.loads((root / names.INFO_FILE).read_text())
    del info["data_path"], info["video_path"], info["chunks_size"], info["total_frames"]
    (root / names.INFO_FILE).write_text(json.dumps(info))
    meta = read_dataset_meta(root)
    assert meta.episodes.data_files.paths[2] == "data/chunk-000/episode_000002.parquet"
    assert meta.info.total_frames == 9


def test_lines_may_come_in_any_order_with_blank_ones_between(plant):
    root = plant("v2.1")
    for name in (names.EPISODE_LINES_FILE, names.TASK_LINES_FILE):
        lines = (root / name).read_text(encoding="utf-8").split("\n")
        (root / name).write_text("\r\n\r\n".join(reversed(lines)), encoding="utf-8")
    assert read_episodes(root, read_info(root)).lengths.tolist() == [4, 3, 2]
    assert read_tasks(root)[0] == "push"


def test_an_episode_without_frames_is_read(plant):
    root = plant("v2.1")
    path = root / names.EPISODE_LINES_FILE
    lines = read_lines(path)
    lines[0]["length"], lines[1]["length"] = 7, 0
    write_lines(path, lines)
    assert read_dataset_meta(root).episodes.to_index.tolist() == [7, 7, 9]


@pytest.mark.parametrize(
    ("number", "change", "fault"),
    [
        (1, {"length": -3}, "episode 1: length must be an integer of at least 0, not -3"),
        (1, {"length": None}, "episode 1: length"),
        (1, {"length": "3"}, "episode 1: length"),
        (1, {"length": True}, "episode 1: length"),
        (1, {"length": 10**30}, "episode 1: length"),
        (1, {"episode_index": 0}, "episodes must be numbered 0 to 2, but 0 appears twice"),
        (2, {"episode_index": 3}, "but 2 is missing"),
        (2, {"episode_index": None}, "episode_index must be an integer"),
        (0, {"tasks": [1]}, "tasks must be a list of strings"),
    ],
)
def test_faulty_episodes_are_refused(plant, number, change, fault):
    root = plant("v2.1")
    path = root / names.EPISODE_LINES_FILE
    lines = read_lines(path)
    lines[number] |= change
    write_lines(path, lines)
    with pytest.raises(DatasetError, match=rf"episodes\.jsonl: .*{fault}"):
        read_dataset_meta(root)


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([{"task_index": 0, "task": "a"}, {"task_index": 0, "task": "b"}], "0 appears twice"),
        ([{"task_index": 0, "task": "a"}, {"task_index": 2, "task": "b"}], "1 is missing"),
        ([{"task_index": 0, "task": 5}], "task 0 must be a string, not 5"),
        ([{"task": "a"}], "task_index must be an integer"),
        ([["a"]], "line 1 must be a JSON object"),
    ],
)
def test_faulty_tasks_are_refused(plant, lines, fault):
    root = plant("v2.1")
    write_lines(root / names.TASK_LINES_FILE, lines)
    with pytest.raises(DatasetError, match=rf"tasks\.jsonl.*{fault}"):
        read_dataset_meta(root)


@pytest.mark.parametrize(
    "name", [names.EPISODE_LINES_FILE, names.TASK_LINES_FILE, names.EPISODE_STATS_LINES_FILE]
)
def test_a_torn_last_line_is_named(plant, name):
    root = plant("v2.1")
    (root / name).write_bytes((root / name).read_bytes()[:-3])
    with pytest.raises(DatasetError, match=rf"{name} is damaged: line \d: "):
        read_dataset_meta(root)


def test_a_dataset_without_episodes_is_refused(plant):
    root = plant("v2.1")
    (root / names.EPISODE_LINES_FILE).write_text("")
    with pytest.raises(DatasetError, match=r"episodes\.jsonl is empty"):
        read_dataset_meta(root)


def test_a_video_must_have_a_place(plant):
    root = plant("v2.1")
    info = json.loads((root / names.INFO_FILE).read_text())
    (root / names.INFO_FILE).write_text(json.dumps(info | {"video_path": None}))
    with pytest.raises(DatasetError, match=r"info\.json declares the video .* video_path is null"):
        read_dataset_meta(root)


def test_statistics_come_line_by_line(plant):
    lines = dict(stats_lines(plant("v2.1")))
    assert lines.keys() == {0, 1, 2}
    assert lines[1]["action"]["count"] == [3]


def test_statistics_of_many_episodes_are_folded_in_blocks(tmp_path):
    means, counts = np.random.default_rng(0).normal(size=2500), np.arange(2500) % 7
    path = tmp_path / names.EPISODE_STATS_LINES_FILE
    path.parent.mkdir()
    lines = []
    for number, (mean, count) in enumerate(zip(means.tolist(), counts.tolist(), strict=True)):
        stats = {"min": mean, "max": [mean], "mean": [mean], "std": [0], "count": [count]}
        lines.append({"episode_index": number, "stats": {"x": stats}})
    write_lines(path, lines)
    stats = read_stats(tmp_path, DatasetInfo("v2.1", 10, {}, total_episodes=2500))["x"]
    values = np.repeat(means, counts)
    assert stats["mean"] == pytest.approx([values.mean()])
    assert stats["std"] == pytest.approx([values.std()])
    assert (stats["min"], stats["max"]) == ([values.min()], [values.max()])
    assert stats["count"] == [len(values)]
