"""Small datasets of the same frames, recorded by either side, copied, converted and merged."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq
from safetensors.numpy import save_file

from manyhands.cli.convert import convert_command
from manyhands.data.writing.output_files import SizeLimits
from manyhands.data.writing.writer import DatasetWriter

FPS = 10
LENGTHS = (7, 5, 9)
TASKS = ("open the drawer", "close the drawer", "open the drawer")
AXES = ["height", "width", "channels"]
NUMBERS = {
    "observation.state": {"dtype": "float32", "shape": [6], "names": list("abcdef")},
    "observation.environment_state": {"dtype": "float32", "shape": [5], "names": None},
    "action": {"dtype": "float32", "shape": [4], "names": None},
    "next.reward": {"dtype": "float32", "shape": [1], "names": None},
    "next.done": {"dtype": "bool", "shape": [1], "names": None},
    "observation.count": {"dtype": "int64", "shape": [1], "names": None},
}
GRID = {"observation.grid": {"dtype": "float32", "shape": [2, 3], "names": None}}
VERSION_2_WRITER = Path(__file__).resolve().parents[1] / "data" / "conftest.py"


def features_of(storage: str) -> dict[str, Any]:
    """Two cameras that are stored so, and numbers.

    Where images are stored, the cameras differ in size and there is a table of numbers. LeRobot
    0.6.1 cannot merge datasets that have one, its own included.
    """
    sizes = {"observation.images.top": [64, 96, 3], "observation.images.wrist": [64, 96, 3]}
    if storage == "image":
        sizes["observation.images.wrist"] = [48, 64, 3]
    cameras = {key: {"dtype": storage, "shape": size, "names": AXES} for key, size in sizes.items()}
    return cameras | NUMBERS | (GRID if storage == "image" else {})


def columns_of(episode: int, storage: str) -> dict[str, np.ndarray]:
    """The values of an episode, stacked by feature."""
    random, length = np.random.default_rng(episode), LENGTHS[episode]
    columns = {}
    for key, feature in features_of(storage).items():
        shape = (length, *feature["shape"])
        match feature["dtype"]:
            case "float32":
                columns[key] = random.normal(size=shape).astype(np.float32)
            case "int64":
                columns[key] = random.integers(-9, 9, shape)
            case "bool":
                columns[key] = random.integers(0, 2, shape).astype(bool)
            case _:
                columns[key] = _pictures(shape, episode)
    return columns


def _pictures(shape: tuple[int, ...], episode: int) -> np.ndarray:
    """Smooth waves, which a video keeps well, of another phase in every frame."""
    number, row, column, channel = np.meshgrid(*map(np.arange, shape), indexing="ij")
    phase = (7 * episode + number) * (1 + channel) / 3
    return (127 + 100 * np.sin(row / 9 + phase) * np.cos(column / 7 - phase)).astype(np.uint8)


def record_ours(root: Path, storage: str) -> None:
    """Record with our writer, a data file per episode, and a video file per two."""
    limits = SizeLimits(files_per_chunk=2, data_file_bytes=1, video_file_bytes=4000)
    with DatasetWriter.create(root, FPS, features_of(storage), limits=limits) as writer:
        for episode, task in enumerate(TASKS):
            columns = columns_of(episode, storage)
            for number in range(LENGTHS[episode]):
                frame = {key: values[number] for key, values in columns.items()}
                writer.add_frame({**frame, "task": task})
            writer.save_episode()


def record_theirs(root: Path, storage: str, lerobot: Callable[..., Any]) -> None:
    """Let LeRobot record the same frames."""
    scratch = root.with_name(f"{root.name}-frames")
    files = []
    for episode, task in enumerate(TASKS):
        files.append(scratch / str(episode) / f"{task}.safetensors")
        files[-1].parent.mkdir(parents=True)
        save_file(columns_of(episode, storage), files[-1])
    lerobot("record", root=root, fps=FPS, features=features_of(storage), episodes=files)


def import_hdf5(root: Path) -> None:
    """Import the same frames from a file of robomimic's layout."""
    file = root.with_name(f"{root.name}.hdf5")
    with h5py.File(file, "w") as opened:
        for episode in range(len(TASKS)):
            demo = opened.create_group(f"data/demo_{episode}")
            for key, values in columns_of(episode, "video").items():
                demo["actions" if key == "action" else key] = values.squeeze()
    mapping = {key: key for key in features_of("video")} | {"action": "actions"}
    flags = (f"--fps={FPS}", "--task=open the drawer", f"--features={json.dumps(mapping)}")
    convert(root, f"--from={file}", *flags)


def repair(root: Path) -> None:
    """Repair a recording of ours without index columns, statistics and the folder of videos."""
    damaged = root.with_name(f"{root.name}-damaged")
    record_ours(damaged, "video")
    for path in damaged.glob("data/**/*.parquet"):
        pq.write_table(pq.read_table(path).drop_columns(["index", "frame_index"]), path)
    (damaged / "meta/stats.json").unlink()
    (damaged / "videos").rename(damaged / "video")
    convert(root, "--repair", f"--dataset.root={damaged}")


def convert(root: Path, *flags: str) -> None:
    """`manyhands convert`, as a user calls it."""
    assert convert_command([*flags, f"--output={root}"]) == 0


def convert_from_version_2(root: Path) -> None:
    """Convert a dataset of version 2.1 that holds the same frames."""
    newest, old = (root.with_name(f"{root.name}-{suffix}") for suffix in ("newest", "old"))
    record_ours(newest, "video")
    runpy.run_path(str(VERSION_2_WRITER))["write_version_2"](newest, old)
    convert(root, f"--dataset.root={old}")
