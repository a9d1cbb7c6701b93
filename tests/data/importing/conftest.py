"""Small datasets of other formats, written with the packages that these formats come from."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from tensorboard.summary.writer.record_writer import RecordWriter

from manyhands.launch.environment import same_library_path

with same_library_path():
    import cv2

LENGTHS = (4, 3, 5)
HEIGHT, WIDTH = 16, 24

Episode = dict[str, np.ndarray]  # state, velocity, action, reward, done, front
Write = Callable[[Path, list[Episode]], Path]


def make_episodes(lengths: tuple[int, ...] = LENGTHS) -> list[Episode]:
    """Episodes of random numbers and smooth images."""
    numbers = np.random.default_rng(0)
    episodes = []
    for length in lengths:
        phases = numbers.uniform(0, 6, (length, 3))
        columns = np.arange(WIDTH) / 8
        waves = 127 + 100 * np.sin(columns[None, :, None] + phases[:, None])
        front = np.repeat(waves[:, None], HEIGHT, axis=1).astype(np.uint8)
        episodes.append(
            {
                "state": numbers.normal(size=(length, 5)),
                "velocity": numbers.normal(size=(length, 2)).astype(np.float32),
                "action": numbers.normal(size=(length, 2)).astype(np.float32),
                "reward": numbers.normal(size=length).astype(np.float32),
                "done": np.arange(length) == length - 1,
                "front": front,
            }
        )
    return episodes


def write_robomimic(path: Path, episodes: list[Episode]) -> Path:
    file = path / "demo.hdf5"
    with h5py.File(file, "w") as opened:
        data = opened.create_group("data")
        arguments = {"env_name": "Lift", "env_kwargs": {"control_freq": 20}}
        data.attrs["env_args"] = json.dumps(arguments)
        # Numbers with gaps, whose order is not that of their letters.
        for number, episode in zip((0, 2, 10), episodes, strict=False):
            demo = data.create_group(f"demo_{number}")
            demo["actions"] = episode["action"].astype(np.float64)
            demo["rewards"], demo["dones"] = episode["reward"], episode["done"].astype(np.int64)
            demo["states"] = np.zeros((len(episode["done"]), 9))
            demo["obs/robot0_eef_pos"] = episode["state"][:, :3]
            demo["obs/robot0_gripper_qpos"] = episode["state"][:, 3:]
            demo["obs/object"] = episode["velocity"]
            demo["next_obs/object"] = episode["velocity"]
            images = {"data": episode["front"], "chunks": (2, HEIGHT, WIDTH, 3)}
            demo.create_dataset("obs/front_image", compression="gzip", **images)
    return file


def write_aloha(path: Path, episodes: list[Episode], is_compressed: bool = False) -> Path:
    for number, episode in enumerate(episodes):
        with h5py.File(path / f"episode_{number}.hdf5", "w") as opened:
            opened["action"] = episode["action"]
            opened["observations/qpos"] = episode["state"]
            opened["observations/qvel"] = episode["velocity"]
            images = padded_jpegs(episode["front"]) if is_compressed else episode["front"]
            opened["observations/images/front"] = images
    return path


def padded_jpegs(images: np.ndarray) -> np.ndarray:
    """Images as JPEG files, padded with zeros to the longest."""
    files = [cv2.imencode(".jpg", image[..., ::-1])[1].reshape(-1) for image in images]
    longest = max(map(len, files))
    return np.stack([np.pad(file, (0, longest - len(file))) for file in files])


def write_zarr(path: Path, episodes: list[Episode], store: Any = None) -> Path:
    folder = path / "replay.zarr"
    root = zarr.open_group(store if store is not None else folder, mode="w", zarr_format=2)
    for name, key in (("state", "state"), ("action", "action"), ("img", "front")):
        values = np.concatenate([episode[key] for episode in episodes])
        # Diffusion Policy keeps images as floats up to 255.
        values = values.astype(np.float32)
        chunks = (5, *values.shape[1:])
        options = {"compressors": numcodecs.Blosc("zstd", 5), "dtype": "f4"}
        array = root.create_array(f"data/{name}", shape=values.shape, chunks=chunks, **options)
        array[:] = values
    ends = np.cumsum([len(episode["done"]) for episode in episodes])
    array = root.create_array("meta/episode_ends", shape=ends.shape, dtype="i8")
    array[:] = ends
    return folder


def write_zarr_zip(path: Path, episodes: list[Episode]) -> Path:
    file = path / "replay.zarr.zip"
    with zarr.storage.ZipStore(file, mode="w") as store:
        write_zarr(path, episodes, store)
    return file


def tensor(dtype: str, *shape: int) -> dict[str, Any]:
    sizes = {"dimensions": [str(size) for size in shape]} if shape else {}
    return {"tensor": {"shape": sizes, "dtype": dtype, "encoding": "none"}}


def write_rlds(path: Path, episodes: list[Episode]) -> Path:
    shape = {"dimensions": [str(HEIGHT), str(WIDTH), "3"]}
    observation = {
        "image": {"image": {"shape": shape, "dtype": "uint8", "encodingFormat": "png"}},
        "state": tensor("float32", 5),
    }
    steps = {
        "observation": {"featuresDict": {"features": observation}},
        "action": tensor("float32", 2),
        "reward": tensor("float32"),
        "is_last": tensor("bool"),
        "language_instruction": {"text": {}},
    }
    inner = {"featuresDict": {"features": steps}}
    features = {"steps": {"sequence": {"feature": inner, "length": "-1"}}}
    (path / "1.0.0").mkdir()
    (path / "1.0.0/features.json").write_text(json.dumps({"featuresDict": {"features": features}}))
    lengths = [str(len(episodes) - 1), "1"]
    split = {"name": "train", "shardLengths": lengths}
    info = {"name": "pick", "version": "1.0.0", "splits": [split]}
    (path / "1.0.0/dataset_info.json").write_text(json.dumps(info))
    for shard, members in enumerate((episodes[:-1], episodes[-1:])):
        file = path / f"1.0.0/pick-train.tfrecord-{shard:05d}-of-00002"
        with file.open("wb") as stream:
            writer = RecordWriter(stream)
            for episode in members:
                writer.write(rlds_example(episode))
            writer.flush()
    return path


def rlds_example(episode: Episode) -> bytes:
    images = [cv2.imencode(".png", image[..., ::-1])[1].tobytes() for image in episode["front"]]
    return serialized_example(
        {
            "steps/observation/image": images,
            "steps/observation/state": episode["state"].astype(np.float32),
            "steps/action": episode["action"],
            "steps/reward": episode["reward"],
            "steps/is_last": episode["done"].astype(np.int64),
            "steps/language_instruction": [b"pick the cube"] * len(episode["done"]),
        }
    )


def serialized_example(values: dict[str, Any]) -> bytes:
    """A tf.train.Example, written by the protobuf package from a description in its own words."""
    file = descriptor_pb2.FileDescriptorProto()
    text = """name: "t" package: "t" syntax: "proto3"
    message_type { name: "B" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
    message_type { name: "F" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT } }
    message_type { name: "I" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
    message_type { name: "V" oneof_decl { name: "k" }
      field { name: "b" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".t.B" oneof_index: 0 }
      field { name: "f" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".t.F" oneof_index: 0 }
      field { name: "i" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".t.I" oneof_index: 0 } }
    message_type { name: "P" field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
      field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".t.V" } }
    message_type { name: "M" field { name: "entry" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".t.P" } }
    message_type { name: "E" field { name: "features" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".t.M" } }
    """  # noqa: E501
    text_format.Parse(text, file)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    example = message_factory.GetMessageClass(pool.FindMessageTypeByName("t.E"))()
    for name, each in values.items():
        entry = example.features.entry.add(key=name)
        if isinstance(each, list):
            entry.value.b.value.extend(each)
        elif each.dtype.kind == "f":
            entry.value.f.value.extend(each.reshape(-1).tolist())
        else:
            entry.value.i.value.extend(each.reshape(-1).tolist())
    return example.SerializeToString()


def write_csv(path: Path, episodes: list[Episode]) -> Path:
    """One table for all episodes, with the names of images in a column."""
    (path / "frames").mkdir()
    with (path / "table.csv").open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text)
        states = [f"state_{place}" for place in range(5)]
        header = ["episode", "timestamp", *states, "action.0", "action.1", "front", "task"]
        writer.writerow(header)
        for number, episode in enumerate(episodes):
            for step in range(len(episode["done"])):
                name = f"frames/{number}_{step}.png"
                cv2.imwrite(str(path / name), episode["front"][step][..., ::-1])
                numbers = [*episode["state"][step].tolist(), *episode["action"][step].tolist()]
                writer.writerow([number, step / 10, *numbers, name, 'push, "then" pull\ntwice'])
    return path / "table.csv"


def write_csv_folders(path: Path, episodes: list[Episode]) -> Path:
    """A folder per episode with a table, and a folder of images for its camera."""
    for number, episode in enumerate(episodes):
        folder = path / f"episode_{number}"
        (folder / "front").mkdir(parents=True)
        rows = ["state_0,state_1,state_2,state_3,state_4,action_0,action_1"]
        for step in range(len(episode["done"])):
            cv2.imwrite(str(folder / f"front/{step}.png"), episode["front"][step][..., ::-1])
            numbers = [*episode["state"][step].tolist(), *episode["action"][step].tolist()]
            rows.append(",".join(map(repr, numbers)))
        (folder / "data.csv").write_text("\n".join(rows) + "\n")
    return path


WRITERS: dict[str, Write] = {
    "robomimic": write_robomimic,
    "aloha": write_aloha,
    "aloha, compressed": lambda path, episodes: write_aloha(path, episodes, is_compressed=True),
    "zarr": write_zarr,
    "zarr, zipped": write_zarr_zip,
    "rlds": write_rlds,
    "csv": write_csv,
    "csv, folders": write_csv_folders,
}


@pytest.fixture(scope="session")
def episodes() -> list[Episode]:
    """Three episodes with 4, 3 and 5 frames."""
    return make_episodes()


@pytest.fixture(scope="session")
def written(
    tmp_path_factory: pytest.TempPathFactory, episodes: list[Episode]
) -> Callable[[str], Path]:
    """A function from the name of a writer to what it wrote; to be read only."""
    paths: dict[str, Path] = {}

    def path(name: str) -> Path:
        if name not in paths:
            paths[name] = WRITERS[name](tmp_path_factory.mktemp("source"), episodes)
        return paths[name]

    return path


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes episodes by the name of a writer, to be damaged."""

    def writing(name: str, episodes: list[Episode]) -> Path:
        folder = tmp_path / "source"
        folder.mkdir()
        return WRITERS[name](folder, episodes)

    return writing


@pytest.fixture(scope="session")
def example() -> Callable[[dict[str, Any]], bytes]:
    """A function from lists by name to the bytes of a tf.train.Example."""
    return serialized_example
