"""A folder that a dataset is written to, episode by episode."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from manyhands.data.images.packets import Clip
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.info import DatasetInfo
from manyhands.types import Stats


class EpisodeFolder(ABC):
    """What a writer fills; the dataset is at `root` after `finish`."""

    def __init__(self, root: Path, info: DatasetInfo) -> None:
        check_new(root)
        self.root = root
        self.info = info  # Except its totals
        self.is_open = True
        self._tasks: dict[str, int] = {}

    @property
    @abstractmethod
    def num_episodes(self) -> int:
        """Episodes added so far."""

    @property
    @abstractmethod
    def num_frames(self) -> int:
        """Frames of the episodes added so far."""

    @property
    def num_tasks(self) -> int:
        """Tasks that have a number."""
        return len(self._tasks)

    def task_number(self, task: str) -> int:
        """The number of a task's text, a new one if it has none yet."""
        return self._tasks.setdefault(task, len(self._tasks))

    @abstractmethod
    def add(
        self, rows: pa.Table, clips: Mapping[str, Clip], tasks: Sequence[str], stats: Stats
    ) -> None:
        """Append an episode, whose rows are numbered to follow those already there."""

    @abstractmethod
    def finish(self) -> None:
        """Complete the dataset and put it in its place."""

    @abstractmethod
    def discard(self) -> None:
        """Stop writing; a dataset that is not finished does not appear."""


def check_new(root: Path) -> None:
    """Reject a folder that exists."""
    if root.exists() or root.is_symlink():
        raise DatasetError(f"{root} already exists. Choose a new folder")
