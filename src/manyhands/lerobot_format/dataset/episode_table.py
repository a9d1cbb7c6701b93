"""The episodes of a dataset, independent of its format version."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from manyhands.lerobot_format import names


@dataclass(frozen=True)
class FileColumn:
    """The file of each episode."""

    paths: tuple[str, ...]  # Files inside the dataset folder, without repetition
    of_episode: np.ndarray  # Position in `paths` by episode

    def members(self, episodes: np.ndarray) -> dict[int, np.ndarray]:
        """Group episodes by file, keyed by position in `paths`."""
        of_episode = self.of_episode[episodes]
        order = np.argsort(of_episode, kind="stable")
        numbers, starts = np.unique(of_episode[order], return_index=True)
        parts = np.split(episodes[order], starts[1:])
        return dict(zip(numbers.tolist(), parts, strict=True))


@dataclass(frozen=True)
class EpisodeTable:
    """All episodes of a dataset, one array entry each."""

    from_index: np.ndarray
    to_index: np.ndarray  # Rows [from_index, to_index) of the dataset's frames
    tasks: list[list[str]]
    data_files: FileColumn
    video_files: dict[str, FileColumn]  # Files by camera
    video_starts_s: dict[str, np.ndarray]  # When an episode begins inside its video file, by camera

    def __len__(self) -> int:
        return len(self.from_index)

    @property
    def lengths(self) -> np.ndarray:
        """Number of frames of each episode."""
        lengths: np.ndarray = self.to_index - self.from_index
        return lengths

    def places(self, frames: np.ndarray) -> np.ndarray:
        """The episode of each frame of the dataset."""
        return np.searchsorted(self.to_index, frames, side="right")

    def first_rows_in_file(self) -> np.ndarray:
        """The first row of each episode in its data file, which contains its episodes in order."""
        files = self.data_files.of_episode
        order = np.argsort(files, kind="stable")
        ends = np.cumsum(self.lengths[order])
        starts = ends - self.lengths[order]
        _, first_of_file = np.unique(files[order], return_index=True)
        first_rows: np.ndarray = np.empty_like(starts)
        first_rows[order] = starts - starts[first_of_file][files[order]]
        return first_rows


def file_column(
    chunks: np.ndarray, files: np.ndarray, locate: Callable[[int, int], str]
) -> FileColumn:
    """Build the file column from chunk and file indices."""
    numbers, of_episode = np.unique(np.stack([chunks, files]), axis=1, return_inverse=True)
    paths = tuple(locate(chunk, file) for chunk, file in numbers.T.tolist())
    if len(set(paths)) < len(paths):
        repeated = next(path for path in paths if paths.count(path) > 1)
        raise ValueError(f"{names.INFO_FILE} gives several files the same path {repeated}")
    return FileColumn(paths, of_episode.reshape(-1))


def check_episodes(episodes: EpisodeTable) -> None:
    """Reject episodes with gaps between their frames with a ValueError."""
    if not len(episodes):
        raise ValueError("there are no episodes")
    borders = np.concatenate([[0], episodes.to_index[:-1]])
    gap = (episodes.from_index != borders) | (episodes.to_index < episodes.from_index)
    if gap.any():
        number = int(np.argmax(gap))
        start, stop = int(episodes.from_index[number]), int(episodes.to_index[number])
        raise ValueError(
            f"episode {number} covers frames {start} to {stop}, but must start at {borders[number]}"
        )


def checked_tasks(tasks: object) -> list[str]:
    """Validate the tasks of an episode, which must be strings; one that is alone may be bare."""
    if tasks is None:
        return []
    if isinstance(tasks, str):
        return [tasks]
    if not isinstance(tasks, list) or not all(isinstance(task, str) for task in tasks):
        raise ValueError(f"tasks must be a list of strings for every episode, not {tasks!r:.60}")
    return tasks
