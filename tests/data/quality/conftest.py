"""Faults planted in episodes, and what the judgment says of the datasets that hold them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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

CAMERA, STATE, ACTION = "observation.image", "observation.state", "action"
Columns = dict[str, np.ndarray]
Planter = Callable[[Columns, np.random.Generator], Columns]


def tremble(share: float, duration: float = 1.0) -> Planter:
    """Noise on every joint, relative to a workspace of 512, for part of an episode."""

    def plant(columns: Columns, chance: np.random.Generator) -> Columns:
        length = len(columns[STATE])
        first = int(chance.integers(0, max(1, round(length * (1 - duration)))))
        end = first + round(length * duration)
        for key in (STATE, ACTION):
            noise = chance.normal(0, 512 * share, columns[key][first:end].shape)
            columns[key][first:end] += noise.astype(np.float32)
        return columns

    return plant


def jolt(share: float) -> Planter:
    """One frame in which every joint is elsewhere."""

    def plant(columns: Columns, chance: np.random.Generator) -> Columns:
        frame = int(chance.integers(5, len(columns[STATE]) - 5))
        for key in (STATE, ACTION):
            columns[key][frame] += np.float32(512 * share) * chance.choice([-1, 1], 2)
        return columns

    return plant


def freeze(seconds: float | None) -> Planter:
    """A camera that repeats an image, for a time or until the end."""

    def plant(columns: Columns, chance: np.random.Generator) -> Columns:
        length = len(columns[STATE])
        first = int(chance.integers(2, max(3, round(length * 0.6))))
        end = length if seconds is None else min(length, first + round(10 * seconds))
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
    Fault.JERK: [tremble(0.015), tremble(0.03), tremble(0.04, 0.15), jolt(0.15), jolt(0.3)],
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
    places = {fault: [first + n for n, own in enumerate(faults) if own == fault] for fault in PLANTERS}
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
