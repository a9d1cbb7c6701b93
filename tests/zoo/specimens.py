"""Datasets as people have them: a small one in both versions, and what can be wrong with it."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from manyhands.data.writing.copy_episodes import copy_episodes
from manyhands.data.writing.copy_sources import EpisodeChoice
from manyhands.data.writing.output_files import SizeLimits
from manyhands.data.writing.writer import DatasetWriter
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

TOP = "observation.images.top"
STATE = "observation.state"
FEATURES = {
    TOP: {"dtype": "video", "shape": [16, 16, 3], "names": ["height", "width", "channels"]},
    STATE: {"dtype": "float32", "shape": [2], "names": None},
    "action": {"dtype": "float32", "shape": [2], "names": None},
}
NUM_EPISODES = 6
LENGTH = 3
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1234\n"
VERSIONS = ("v2.1", "v3.0")


def record(root: Path, features: dict[str, Any] | None = None, **options: Any) -> Path:
    """Record episodes of noise."""
    features = features or FEATURES
    draws = np.random.default_rng(0)
    with DatasetWriter.create(root, 10, features, **options) as writer:
        for number in range(NUM_EPISODES * LENGTH):
            frame = {key: _value(feature, draws) for key, feature in features.items()}
            writer.add_frame(frame | {"task": f"task {number // LENGTH % 2}"})
            if number % LENGTH == LENGTH - 1:
                writer.save_episode()
    return root


def _value(feature: dict[str, Any], draws: np.random.Generator) -> np.ndarray:
    if feature["dtype"] in ("video", "image"):
        return draws.integers(0, 256, feature["shape"], dtype=np.uint8)
    return draws.normal(size=feature["shape"]).astype(np.float32)


def record_pairs(root: Path) -> Path:
    """The same in version 3.0 with two episodes per file."""
    apart = record(root.with_name("apart"), limits=SizeLimits(1000, 1, 1))
    size = max(path.stat().st_size for path in apart.glob("videos/*/*/*.mp4"))
    rows = max(path.stat().st_size for path in apart.glob("data/*/*.parquet"))
    limits = SizeLimits(1000, int(rows * 1.2), int(size * 1.5))
    copy_episodes([EpisodeChoice(apart)], root, limits=limits)
    return root


def rewrite_as_version_2(root: Path, old: Path) -> Path:
    """A dataset with a file per episode, as version 2.1 lays it out."""
    meta = read_dataset_meta(root)
    info = read_json(root / names.INFO_FILE) | {
        "codebase_version": "v2.1",
        "data_path": names.V2_DATA_PATH,
        "video_path": names.V2_VIDEO_PATH,
    }
    stats = {key: {n: v.tolist() for n, v in own.items()} for key, own in meta.stats.items()}
    tasks = [{"task_index": number, "task": task} for number, task in enumerate(meta.tasks)]
    episodes = [
        {"episode_index": each, "tasks": meta.episodes.tasks[each], "length": LENGTH}
        for each in range(NUM_EPISODES)
    ]
    write_json(old / names.INFO_FILE, info)
    write_lines(old / names.TASK_LINES_FILE, tasks)
    write_lines(old / names.EPISODE_LINES_FILE, episodes)
    stat_lines = [{"episode_index": each, "stats": stats} for each in range(NUM_EPISODES)]
    write_lines(old / names.EPISODE_STATS_LINES_FILE, stat_lines)
    for each in range(NUM_EPISODES):
        place = {"episode_chunk": 0, "episode_index": each}
        files = {meta.episodes.data_files.paths[each]: names.V2_DATA_PATH.format(**place)}
        for key, column in meta.episodes.video_files.items():
            files[column.paths[each]] = names.V2_VIDEO_PATH.format(**place, video_key=key)
        for source, target in files.items():
            (old / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / source, old / target)
    return old


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def write_json(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def write_lines(path: Path, documents: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in documents))


class Dataset:
    """A dataset to damage, in one of the versions."""

    def __init__(self, root: Path, version: str) -> None:
        self.root = root
        self.is_old = version == "v2.1"

    @property
    def videos(self) -> list[Path]:
        """Video files; in version 3.0 each shows two episodes."""
        return sorted(self.root.glob("videos/**/*.mp4"))

    @property
    def tables(self) -> list[Path]:
        return sorted(self.root.glob("data/**/*.parquet"))

    @property
    def tasks_file(self) -> Path:
        return self.root / (names.TASK_LINES_FILE if self.is_old else names.TASKS_FILE)

    @property
    def stats_file(self) -> Path:
        return self.root / (names.EPISODE_STATS_LINES_FILE if self.is_old else names.STATS_FILE)

    def change_info(self, **changes: Any) -> None:
        path = self.root / names.INFO_FILE
        write_json(path, read_json(path) | changes)

    def change_column(
        self, key: str, change: Callable[[list[Any]], list[Any]] | None, files: slice = slice(None)
    ) -> None:
        """Replace a column of some data files, or remove it."""
        for path in self.tables[files]:
            table = pq.read_table(path)
            place = table.column_names.index(key)
            if change is None:
                changed = table.remove_column(place)
            else:
                values = pa.array(change(table[key].to_pylist()), table[key].type)
                changed = table.set_column(place, key, values)
            pq.write_table(changed, path)

    def in_repository(self) -> None:
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def from_hub(self) -> None:
        (self.root / ".cache/huggingface/download").mkdir(parents=True)


Damage = Callable[[Dataset], None]


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong, and words of the cause that must be named."""

    name: str
    damage: Damage
    cause: str = ""
    """Empty: nothing need be said."""
    versions: tuple[str, ...] = VERSIONS
    flags: tuple[str, ...] = ()


def fill(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


def unlink(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def annex(path: Path) -> None:
    path.unlink()
    path.symlink_to("../../.git/annex/objects/aa/bb/MD5E-s9--0/MD5E-s9--0")


def dangle(path: Path) -> None:
    path.unlink()
    path.symlink_to("../../blobs/0123456789")


def videos(change: Callable[[Path], None], which: slice = slice(0, 1)) -> Damage:
    return lambda dataset: [change(path) for path in dataset.videos[which]] and None


def tables(change: Callable[[Path], None], which: slice = slice(0, 1)) -> Damage:
    return lambda dataset: [change(path) for path in dataset.tables[which]] and None


def together(*damages: Damage) -> Damage:
    def apply(dataset: Dataset) -> None:
        for damage in damages:
            damage(dataset)

    return apply


def info(**changes: Any) -> Damage:
    return lambda dataset: dataset.change_info(**changes)


def no_column(key: str) -> Damage:
    return lambda dataset: dataset.change_column(key, None)


def rename(old: str, new: str) -> Damage:
    def apply(dataset: Dataset) -> None:
        for path in dataset.root.glob(f"**/{old}"):
            path.rename(path.with_name(new))

    return apply


def other_templates(dataset: Dataset) -> None:
    old = not dataset.is_old
    data, video = names.DATA_PATH, names.VIDEO_PATH
    if old:
        data, video = names.V2_DATA_PATH, names.V2_VIDEO_PATH
    dataset.change_info(data_path=data, video_path=video)


def other_version(dataset: Dataset) -> None:
    dataset.change_info(codebase_version="v3.0" if dataset.is_old else "v2.1")


def undeclared_column(dataset: Dataset) -> None:
    for path in dataset.tables:
        table = pq.read_table(path)
        pq.write_table(table.append_column("extra", pa.array([0] * len(table))), path)


def undeclared_feature(key: str) -> Damage:
    def apply(dataset: Dataset) -> None:
        features = read_json(dataset.root / names.INFO_FILE)["features"]
        dataset.change_info(features={name: each for name, each in features.items() if name != key})

    return apply


def declared_codec(name: str) -> Damage:
    def apply(dataset: Dataset) -> None:
        features = read_json(dataset.root / names.INFO_FILE)["features"]
        features[TOP]["info"] = features[TOP].get("info", {}) | {"video.codec": name}
        dataset.change_info(features=features)

    return apply


def not_finite(rows: slice) -> Damage:
    def change(values: list[list[float]]) -> list[list[float]]:
        return [
            [float("nan"), *row[1:]] if number in range(*rows.indices(99)) else row
            for number, row in enumerate(values)
        ]

    return lambda dataset: dataset.change_column(STATE, change, slice(0, 1))


def tasks_of(texts: list[Any]) -> Damage:
    def apply(dataset: Dataset) -> None:
        if dataset.is_old:
            lines = [{"task_index": number, "task": text} for number, text in enumerate(texts)]
            write_lines(dataset.tasks_file, lines)
            return
        columns = {"task_index": pa.array(range(len(texts)), pa.int64())}
        pq.write_table(
            pa.table(columns | {"task": pa.array(texts, pa.string())}), dataset.tasks_file
        )

    return apply


def garbled_stats(dataset: Dataset) -> None:
    dataset.stats_file.write_text('{"action": {"mean": "x"}}')


def stats_without_deviation(dataset: Dataset) -> None:
    if dataset.is_old:
        lines = [json.loads(line) for line in dataset.stats_file.read_text().splitlines()]
        for line in lines:
            line["stats"][STATE]["std"] = [-1.0, -1.0]
        write_lines(dataset.stats_file, lines)
        dataset.stats_file.rename(dataset.stats_file)
        return
    stats = read_json(dataset.stats_file)
    stats[STATE]["std"] = [-1.0, -1.0]
    write_json(dataset.stats_file, stats)


def shifted_index(dataset: Dataset) -> None:
    dataset.change_column("index", lambda old: [each + 5 for each in old])


def fewer_rows(dataset: Dataset) -> None:
    path = dataset.tables[0]
    pq.write_table(pq.read_table(path).slice(1), path)


def removed_line(dataset: Dataset) -> None:
    path = dataset.root / names.EPISODE_LINES_FILE
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for number, line in enumerate(lines) if number != 3))


def foreign_files(dataset: Dataset) -> None:
    for path in [*dataset.tables, *dataset.videos]:
        path.with_name(f"._{path.name}").write_bytes(b"\0\5\26\7")
    (dataset.root / ".DS_Store").write_bytes(b"\0")
    (dataset.root / "README.md").write_text("# data")


def other_tasks(which: slice) -> Damage:
    return lambda dataset: dataset.change_column("task_index", lambda own: [7] * len(own), which)


def standing_clock(dataset: Dataset) -> None:
    dataset.change_column("timestamp", lambda own: [0.0] * len(own), slice(0, 1))


HUB: Damage = Dataset.from_hub
GIT: Damage = Dataset.in_repository
LOST = slice(1, None)  # All files but the first
LFS = fill(POINTER.encode())


def faults() -> Iterator[Fault]:
    """Every kind of fault."""
    yield Fault("video missing", videos(unlink), "is missing")
    yield Fault("table missing", tables(unlink), "is missing")
    yield Fault("most videos missing", videos(unlink, LOST), "is missing")
    yield Fault("most tables missing", tables(unlink, LOST), "is missing")
    yield Fault("both missing", together(tables(unlink), videos(unlink, slice(2, 4))), "is missing")
    yield Fault("partial download", together(HUB, videos(unlink, LOST)), "is missing")
    yield Fault("all videos missing", together(HUB, videos(unlink, slice(None))), "is missing")
    yield Fault("camera never copied", videos(unlink, slice(None)), "is missing")
    yield Fault("broken links", together(HUB, videos(dangle, LOST)), "is a link to ../../blobs")
    yield Fault("pointers", together(GIT, videos(LFS, slice(None))), "Git LFS pointer")
    everything = together(videos(LFS, slice(None)), tables(LFS, slice(None)))
    yield Fault("all pointers", together(GIT, everything), "Git LFS pointer")
    yield Fault("one pointer", together(GIT, tables(LFS)), "Git LFS pointer")
    yield Fault("archive of pointers", everything, "Git LFS pointer")
    pointed = together(GIT, lambda own: LFS(own.root / names.INFO_FILE))
    yield Fault("pointer as metadata", pointed, "info.json is a Git LFS pointer")
    no_info = together(HUB, lambda own: (own.root / names.INFO_FILE).unlink())
    yield Fault("metadata not downloaded", no_info, "info.json is missing")
    lines = (names.EPISODE_LINES_FILE, f"{names.EPISODES_FOLDER}/chunk-000/file-000.parquet")
    no_episodes = together(HUB, lambda own: (own.root / lines[not own.is_old]).unlink())
    yield Fault("episodes not downloaded", no_episodes, "is missing|contains no episodes")
    annexed = together(GIT, lambda own: annex(own.root / names.INFO_FILE))
    yield Fault("annexed metadata", annexed, "info.json is a git-annex link")
    yield Fault("annexed videos", together(GIT, videos(annex, LOST)), "git-annex link")
    yield Fault("annexed tables", together(GIT, tables(annex)), "git-annex link")
    yield Fault("unlocked annex", together(GIT, videos(fill(b"/annex/objects/X"))), "git-annex")
    yield Fault("empty video", videos(fill(b"")), "is empty")
    yield Fault("empty table", tables(fill(b"")), "is empty")
    yield Fault("truncated video", videos(truncate), "damaged")
    yield Fault("truncated table", tables(truncate), "is damaged: truncated")
    yield Fault("page instead of table", tables(fill(b"<!DOCTYPE html><p>404")), "HTML page")
    yield Fault("page instead of video", videos(fill(b"<html>Sign in")), "HTML page")
    yield Fault("allocated video", videos(fill(bytes(5000))), "not completed")
    yield Fault("renamed video folder", rename("videos", "video"), "is missing")
    yield Fault("renamed data folder", rename("data", "Data"), "is missing")
    yield Fault("renamed camera", rename(TOP, "top"), "is missing")
    yield Fault("renamed chunk", rename("chunk-000", "chunk_0"), "is missing|cannot be read")
    yield Fault("templates of the other version", other_templates, "fields of another version")
    yield Fault("other version", other_version, "but the files in meta are of")
    yield Fault("codec by container", declared_codec("mp4v"), "the codec is av1")
    yield Fault("more frames counted", info(total_frames=99), "total_frames is 99")
    yield Fault("more episodes counted", info(total_episodes=99), "total_episodes is 99")
    yield Fault("fewer episodes counted", info(total_episodes=3), "total_episodes is 3")
    yield Fault("more tasks counted", info(total_tasks=9), "total_tasks is 9")
    yield Fault("other split", info(splits={"train": "0:50"}), "split train is 0:50")
    for key in names.RESERVED_FEATURES:
        yield Fault(f"no column {key}", no_column(key), f"no column {key}")
        yield Fault(f"{key} not declared", undeclared_feature(key), f"not declare {key}")
    yield Fault("undeclared column", undeclared_column, "not read: extra")
    yield Fault("no tasks file", lambda own: own.tasks_file.unlink(), "is missing; the tasks of")
    yield Fault("empty tasks file", lambda own: fill(b"")(own.tasks_file), "is empty")
    yield Fault("tasks without text", tasks_of([None, None]), "task 0 is empty")
    yield Fault("tasks file without tasks", tasks_of([]), "lists no task|is empty")
    yield Fault("no statistics", lambda own: own.stats_file.unlink(), "no statistics")
    yield Fault("empty statistics", lambda own: fill(b"")(own.stats_file), "is empty")
    yield Fault("garbled statistics", garbled_stats, "stats")
    yield Fault("negative deviation", stats_without_deviation, "negative", ("v3.0",))
    yield Fault("one NaN", not_finite(slice(1, 2)), "NaN or Inf")
    yield Fault("episode of NaN", not_finite(slice(0, 3)), "NaN or Inf")
    yield Fault("other numbering", shifted_index, "column index must count")
    yield Fault("fewer rows", fewer_rows, "but the metadata declares")
    yield Fault("removed episode", removed_line, "3 is missing", ("v2.1",))
    yield Fault("one unknown task", other_tasks(slice(0, 1)), "refers to task 7")
    yield Fault("unknown tasks", other_tasks(slice(None)), "refers to task 7")
    yield Fault("standing clock", standing_clock, "timestamps do not increase")
    yield Fault("files of the system", foreign_files)
