"""A dataset being written whose episodes survive a kill: each is on disk before the next begins.

Episodes wait beside the target as complete folders. `finish` joins them, without encoding anything
again, so that the dataset is the same however often the writing was interrupted.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pyarrow as pa

from manyhands.atomic import atomic_directory, atomic_file
from manyhands.data.images.encoder import ClipFile
from manyhands.data.images.packets import Clip, EncodedVideo
from manyhands.data.writing.dataset_folder import DatasetFolder, empty_info
from manyhands.data.writing.output_files import SizeLimits
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.features import Feature
from manyhands.types import Stats

_IDENTITY_FILE = "identity.json"
_ROWS_FILE, _STATS_FILE, _TASKS_FILE = "rows.arrow", "stats.npz", "tasks.json"


class StagedFolder:
    """Episodes are added one by one; those of an interrupted writing are there already."""

    def __init__(
        self,
        root: Path,
        fps: int,
        features: dict[str, Feature],
        robot_type: str | None = None,
        identity: str = "",
    ) -> None:
        if root.exists() or root.is_symlink():
            raise DatasetError(f"{root} already exists. Choose a new folder")
        self.root = root
        self.info = empty_info(fps, features, robot_type, SizeLimits())
        self.is_open = True
        self._fps = fps
        self._stage = staging_folder(root)
        self._tasks: dict[str, int] = {}
        self._lengths: list[int] = []
        self._begin(identity)

    @property
    def num_episodes(self) -> int:
        """Episodes added so far, by this process or an interrupted one."""
        return len(self._lengths)

    @property
    def num_frames(self) -> int:
        """Frames of the episodes added so far."""
        return sum(self._lengths)

    def task_number(self, task: str) -> int:
        """The number of a task's text, a new one if it has none yet."""
        return self._tasks.setdefault(task, len(self._tasks))

    def add(
        self, rows: pa.Table, clips: Mapping[str, Clip], tasks: Sequence[str], stats: Stats
    ) -> None:
        """Append an episode, whose rows are numbered to follow those already there."""
        with atomic_directory(self._episode(self.num_episodes)) as folder:
            with pa.ipc.new_file(folder / _ROWS_FILE, rows.schema) as file:
                file.write_table(rows)
            for key, clip in clips.items():
                with closing(ClipFile(folder / f"{key}.mp4", self._fps)) as video:
                    video.append(clip)
            flat = {f"{key}/{name}": each for key in stats for name, each in stats[key].items()}
            np.savez(folder / _STATS_FILE, **flat)  # type: ignore[arg-type]
            document = {"tasks": list(tasks), "num_frames": rows.num_rows}
            (folder / _TASKS_FILE).write_text(json.dumps(document), encoding="utf-8")
        self._lengths.append(rows.num_rows)

    def finish(self) -> None:
        """Join the episodes into the dataset, and put it in its place."""
        info = self.info
        folder = DatasetFolder(self.root, self._fps, dict(info.features), info.robot_type)
        try:
            for task in self._tasks:
                folder.task_number(task)
            for number in range(self.num_episodes):
                self._copy(number, folder)
            folder.finish()
        finally:
            folder.discard()
        self.is_open = False
        shutil.rmtree(self._stage)

    def discard(self) -> None:
        """Stop writing; complete episodes stay for the next time."""
        self.is_open = False

    def _begin(self, identity: str) -> None:
        """Read what is there; episodes of something else are removed."""
        file = self._stage / _IDENTITY_FILE
        if not file.is_file() or file.read_text(encoding="utf-8") != identity:
            shutil.rmtree(self._stage, ignore_errors=True)
            self._stage.mkdir(parents=True)
            with atomic_file(file) as scratch:
                scratch.write_text(identity, encoding="utf-8")
        for tasks, num_frames in self._complete_episodes():
            for task in tasks:
                self.task_number(task)
            self._lengths.append(num_frames)

    def _complete_episodes(self) -> Iterator[tuple[list[str], int]]:
        number = 0
        while (file := self._episode(number) / _TASKS_FILE).is_file():
            document = json.loads(file.read_text(encoding="utf-8"))
            yield document["tasks"], document["num_frames"]
            number += 1

    def _copy(self, number: int, folder: DatasetFolder) -> None:
        stage = self._episode(number)
        document = json.loads((stage / _TASKS_FILE).read_text(encoding="utf-8"))
        with pa.ipc.open_file(stage / _ROWS_FILE) as file:
            rows = file.read_all()
        with ExitStack() as open_videos:
            clips = {}
            for key in self.info.video_keys:
                video = EncodedVideo(stage / f"{key}.mp4", self._fps)
                open_videos.enter_context(closing(video))
                clip = video.cut(0, rows.num_rows)
                assert clip is not None, "a staged clip begins with a keyframe"
                clips[key] = clip
            folder.add(rows, clips, document["tasks"], _read_stats(stage / _STATS_FILE))

    def _episode(self, number: int) -> Path:
        return self._stage / f"{number:06d}"


def staging_folder(root: Path) -> Path:
    """Where the episodes of an unfinished dataset wait."""
    return root.with_name(f".{root.name}.episodes")


def _read_stats(file: Path) -> Stats:
    stats: Stats = {}
    with np.load(file) as flat:
        for entry, value in flat.items():
            key, _, name = entry.rpartition("/")
            stats.setdefault(key, {})[name] = value
    return stats
