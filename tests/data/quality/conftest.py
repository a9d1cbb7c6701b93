"""Episodes as people record them, faults planted in them, and the judgment of both."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from manyhands.data.dataset import Dataset, open_dataset
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.quality.dataset_quality import DatasetQuality, QualityOptions, judge_quality
from manyhands.data.quality.episode_quality import Fault
from manyhands.data.writing.copy_episodes import copy_episodes
from manyhands.data.writing.copy_sources import EpisodeChoice
from manyhands.data.writing.writer import DatasetWriter
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.features import feature_document
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

CAMERA, STATE, ACTION, DONE = "observation.image", "observation.state", "action", "next.done"
WORKSPACE = 512  # Width and height of where the joints move, as in PushT
FPS, SIDE = 10, 32
NUMBERS = {
    STATE: {"dtype": "float32", "shape": [2], "names": ["x", "y"]},
    ACTION: {"dtype": "float32", "shape": [2], "names": ["x", "y"]},
}
AXES = ["height", "width", "channels"]
FEATURES = NUMBERS | {
    CAMERA: {"dtype": "image", "shape": [SIDE, SIDE, 3], "names": AXES},
    DONE: {"dtype": "bool", "shape": [1], "names": None},
}
Columns = dict[str, np.ndarray]
Planter = Callable[[Columns, np.random.Generator], Columns]


def demonstrate(chance: np.random.Generator, length: int) -> Columns:
    """A tool that is led from place to place, and a camera that sees it."""
    places = chance.uniform(0.1, 0.9, (length // 12 + 2, 2)) * WORKSPACE
    times = np.linspace(0, len(places) - 1, length)
    leg = np.minimum(times.astype(int), len(places) - 2)
    part = (times - leg)[:, None]
    eased = part**3 * (10 - 15 * part + 6 * part**2)
    action = places[leg] + eased * (places[leg + 1] - places[leg])
    state = np.concatenate([action[:1], action[:-1]]) + chance.normal(0, 0.3, action.shape)
    done = np.arange(length) == length - 1
    columns = {STATE: state, ACTION: action + chance.normal(0, 0.5, action.shape)}
    columns = {key: values.astype(np.float32) for key, values in columns.items()}
    return columns | {CAMERA: film(state), DONE: done[:, None]}


def film(state: np.ndarray) -> np.ndarray:
    """Images (frames, channels, height, width) of a disk where the tool is."""
    rows, columns = np.mgrid[:SIDE, :SIDE] + 0.5
    x, y = (state / WORKSPACE * SIDE).T[:, :, None, None]
    disk = np.clip(3 - np.hypot(columns - x, rows - y), 0, 1)
    return np.stack([60 + 160 * disk, 90 + rows + 0 * disk, 120 - 90 * disk], 1).astype(np.uint8)


def tremble(share: float, duration: float = 1.0, keys: Sequence[str] = (STATE, ACTION)) -> Planter:
    """Noise on every joint, relative to the workspace, for part of an episode."""

    def plant(columns: Columns, chance: np.random.Generator) -> Columns:
        length = len(columns[STATE])
        first = int(chance.integers(0, max(1, round(length * (1 - duration)))))
        end = first + round(length * duration)
        for key in keys:
            noise = chance.normal(0, WORKSPACE * share, columns[key][first:end].shape)
            columns[key][first:end] += noise.astype(np.float32)
        return columns

    return plant


def jolt(share: float) -> Planter:
    """One frame in which every joint is elsewhere."""

    def plant(columns: Columns, chance: np.random.Generator) -> Columns:
        frame = int(chance.integers(5, len(columns[STATE]) - 5))
        for key in (STATE, ACTION):
            columns[key][frame] += np.float32(WORKSPACE * share) * chance.choice([-1, 1], 2)
        return columns

    return plant


def freeze(seconds: float | None) -> Planter:
    """A camera that repeats an image, for a time or until the end."""

    def plant(columns: Columns, chance: np.random.Generator) -> Columns:
        length = len(columns[STATE])
        first = int(chance.integers(2, max(3, round(length * 0.6))))
        end = length if seconds is None else min(length, first + round(FPS * seconds))
        columns[CAMERA][first:end] = columns[CAMERA][first]
        return columns

    return plant


def truncate(share: float) -> Planter:
    """The first frames only."""

    def plant(columns: Columns, chance: np.random.Generator) -> Columns:
        end = max(5, round(len(columns[STATE]) * share))
        return {key: values[:end] for key, values in columns.items()}

    return plant


PLANTERS: dict[Fault, list[Planter]] = {
    Fault.JERK: [
        tremble(0.01),
        tremble(0.02, keys=[ACTION]),
        tremble(0.03, duration=0.2),
        jolt(0.1),
        jolt(0.3),
    ],
    Fault.FROZEN: [freeze(1.5), freeze(2.5), freeze(4), freeze(None), freeze(None)],
    Fault.TRUNCATED: [truncate(share) for share in (0.15, 0.25, 0.4, 0.6, 0.8)],
}


class Planted(NamedTuple):
    """A dataset, and the episodes with planted faults in it."""

    root: Path
    episodes: dict[Fault, list[int]]


def plant_faults(source: Path, root: Path, number: int, seed: int = 0) -> Planted:
    """Copy a dataset with that many episodes of each kind replaced by faulty ones."""
    dataset = open_dataset(root=source)
    chance = np.random.default_rng(seed)
    chosen = chance.permutation(dataset.num_episodes)[: number * len(PLANTERS)].tolist()
    faults = [fault for fault in PLANTERS for _ in range(number)]
    features = {
        key: feature_document(feature)
        for key, feature in dataset.features.items()
        if key not in names.RESERVED_FEATURES
    }
    faulty = root.with_name("faulty")
    with DatasetWriter.create(faulty, int(dataset.fps), features) as writer:
        for place, (episode, fault) in enumerate(zip(chosen, faults, strict=True)):
            planter = PLANTERS[fault][place % len(PLANTERS[fault])]
            columns = planter(read_episode(dataset, episode), chance)
            write_episode(writer, columns, dataset.meta.episodes.tasks[episode][0])
    healthy = EpisodeChoice(source, exclude=chosen)
    copy_episodes([healthy, EpisodeChoice(faulty)], root, allow_mixed_robots=True)
    first = dataset.num_episodes - len(chosen)
    places = {
        fault: [first + n for n, own in enumerate(faults) if own == fault] for fault in PLANTERS
    }
    return Planted(root, places)


def read_episode(dataset: Dataset, episode: int) -> Columns:
    frames = np.arange(*dataset.frame_bounds[episode])
    return {
        key: dataset.column_values(key, frames).copy()
        for key in dataset.features
        if key not in names.RESERVED_FEATURES
    }


def write_episode(writer: DatasetWriter, columns: Columns, task: str) -> None:
    images = {key for key, values in columns.items() if values.ndim == 4}
    for row in range(len(columns[ACTION])):
        frame = {key: np.atleast_1d(values[row]) for key, values in columns.items()}
        frame |= {key: frame[key].transpose(1, 2, 0) for key in images}
        writer.add_frame(frame | {"task": task})
    writer.save_episode()


def judge(
    root: Path, episodes: Sequence[int] | None = None, num_workers: int = 0
) -> DatasetQuality:
    """Judge a folder, in this process unless told otherwise."""
    meta = read_dataset_meta(root)
    source = Source(root, meta, select_episodes(meta.episodes, episodes))
    return judge_quality(source, QualityOptions(num_workers=num_workers))


@pytest.fixture(scope="session", name="judge")
def judge_fixture() -> Callable[..., DatasetQuality]:
    """A function from a folder to the quality of its episodes."""
    return judge


@pytest.fixture(scope="session", name="demonstrate")
def demonstrate_fixture() -> Callable[..., Columns]:
    """A function from a generator and a length to an episode."""
    return demonstrate


@pytest.fixture(scope="session", name="plant_faults")
def plant_faults_fixture() -> Callable[..., Planted]:
    """A function that copies a dataset with planted faults."""
    return plant_faults


@pytest.fixture(scope="session")
def write_numbers() -> Callable[..., Path]:
    """A function that records actions and states, without cameras, in a new folder."""

    def written(root: Path, trajectories: Sequence[np.ndarray], task: str = "move") -> Path:
        with DatasetWriter.create(root, FPS, NUMBERS) as writer:
            for values in trajectories:
                with np.errstate(over="ignore"):
                    values = np.asarray(values, np.float32)
                write_episode(writer, {STATE: values, ACTION: values}, task)
        return root

    return written


@pytest.fixture(scope="session")
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty healthy episodes of four to eight seconds with one camera; to be read only."""
    root = tmp_path_factory.mktemp("demonstrations") / "dataset"
    chance = np.random.default_rng(0)
    with DatasetWriter.create(root, FPS, FEATURES) as writer:
        for _ in range(40):
            write_episode(writer, demonstrate(chance, int(chance.integers(40, 80))), "move")
    return root


@pytest.fixture(scope="session")
def planted(demonstrations: Path, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """The same episodes, three of each kind of fault among them."""
    return plant_faults(demonstrations, tmp_path_factory.mktemp("planted") / "dataset", 3)
