"""Trajectories of a dataset: actions and states of each episode, and the labels of its end."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyhands.data.dataset import Dataset, open_dataset
from manyhands.data.episodes import Source
from manyhands.data.read_options import ReadOptions
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.info import Feature

STATE = f"{names.OBSERVATION}.state"
END_LABELS = ("next.success", "next.done")  # True in the last frame of a complete episode
_LARGEST = 1e100  # Differences and squares of it are still finite


@dataclass(frozen=True)
class Joint:
    """One number of the action or state."""

    key: str
    place: int
    name: str  # For people: observation.state[gripper]


class Trajectories:
    """The numbers of chosen episodes, read one episode at a time."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._keys = motion_keys(dataset.features)
        self.joints = [
            Joint(key, place, joint_name(key, place, dataset.features[key]))
            for key in self._keys
            for place in range(dataset.features[key].shape[0])
        ]
        self.fps = dataset.fps
        self.episodes = dataset.episodes
        self.lengths = np.diff(dataset.frame_bounds, axis=1)[:, 0]
        self.first_tasks = [
            (dataset.meta.episodes.tasks[number] or ("",))[0] for number in self.episodes.tolist()
        ]

    def __len__(self) -> int:
        return len(self.episodes)

    def read(self, place: int) -> np.ndarray:
        """Values (frames, joints) of an episode; gaps of NaN or Inf are interpolated."""
        frames = np.arange(*self._dataset.frame_bounds[place])
        values = np.empty((len(frames), len(self.joints)))
        end = 0
        for key in self._keys:
            first, end = end, end + self._dataset.features[key].shape[0]
            read = self._dataset.column_values(key, frames)
            values[:, first:end] = read.reshape(len(frames), end - first)
        for joint in np.flatnonzero(~np.isfinite(values).all(axis=0)):
            values[:, joint] = _interpolated(values[:, joint])
        return np.clip(values, -_LARGEST, _LARGEST)

    def end_labels(self) -> dict[str, np.ndarray]:
        """Whether the last frame of each episode has a label, by label."""
        lasts = np.maximum(self._dataset.frame_bounds[:, 1] - 1, 0)
        present = [key for key in END_LABELS if key in self._dataset.features]
        return {
            key: self._dataset.column_values(key, lasts).reshape(len(lasts)) > 0
            for key in present
            if self._is_flag(key)
        }

    def _is_flag(self, key: str) -> bool:
        feature = self._dataset.features[key]
        return feature.is_number and feature.shape == (1,)


def open_trajectories(source: Source, home: Path | None = None) -> Trajectories:
    """The numbers of the chosen episodes; images and texts are not read."""
    features = source.meta.info.features
    skip = [key for key, feature in features.items() if not feature.is_number]
    reading = ReadOptions(skip=skip, home=home)
    episodes = source.selection.episodes.tolist()
    return Trajectories(open_dataset(root=source.root, episodes=episodes, reading=reading))


def motion_keys(features: dict[str, Feature]) -> list[str]:
    """Action and state; in a dataset with other names, every list of real numbers."""
    lists = [
        key
        for key, feature in features.items()
        if feature.is_number
        and feature.dtype.startswith("float")
        and len(feature.shape) == 1
        and key not in names.RESERVED_FEATURES
    ]
    usual = [key for key in (names.ACTION, STATE) if key in lists]
    return usual or [key for key in lists if not key.startswith("next.")]


def joint_name(key: str, place: int, feature: Feature) -> str:
    """A number of a feature for people, by the name that the dataset gives it."""
    # Older releases put the list under the name of a group, as in {"motors": [...]}.
    grouped = isinstance(feature.names, dict) and len(feature.names) == 1
    labels = next(iter(feature.names.values())) if grouped else feature.names
    is_named = isinstance(labels, list | tuple) and len(labels) == feature.shape[0]
    return f"{key}[{labels[place] if is_named else place}]"


def _interpolated(values: np.ndarray) -> np.ndarray:
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return np.zeros_like(values)
    filled: np.ndarray = np.interp(np.arange(len(values)), known, values[known])
    return filled
