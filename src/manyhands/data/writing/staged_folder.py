"""A dataset being written whose episodes survive a kill: each is on disk before the next begins.

Episodes wait beside the target as complete folders. `finish` joins them, without encoding anything
again, so that the dataset is the same however often the writing was interrupted.
"""

import fcntl
import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from manyhands.atomic import atomic_directory, atomic_file
from manyhands.data.images.encoder import ClipFile
from manyhands.data.images.packets import Clip, EncodedVideo
from manyhands.data.locks import lock
from manyhands.data.writing.dataset_folder import DatasetFolder, empty_info
from manyhands.data.writing.episode_folder import EpisodeFolder
from manyhands.data.writing.output_files import SizeLimits
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.features import Feature
from manyhands.types import Stats

_IDENTITY_FILE, _LOCK_FILE = "identity.json", "lock"
_ROWS_FILE, _RECORD_FILE = "rows.arrow", "record.json"


class StagedFolder(EpisodeFolder):
    """Episodes are added one by one; those of an interrupted writing are there already."""

    def __init__(
        self,
        root: Path,
        fps: int,
        features: dict[str, Feature],
        robot_type: str | None = None,
        identity: str = "",
    ) -> None:
        super().__init__(root, empty_info(fps, features, robot_type, SizeLimits()))
        self._fps = fps
        self._stage = staging_folder(root)
        self._lengths: list[int] = []
        self._stage.mkdir(parents=True, exist_ok=True)
        self._lock = self._locked()
        self._begin(identity)

    @property
    def num_episodes(self) -> int:
        """Episodes added so far, by this process or an interrupted one."""
        return len(self._lengths)

    @property
    def num_frames(self) -> int:
        """Frames of the episodes added so far."""
        return sum(self._lengths)

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
            record = {"tasks": list(tasks), "num_frames": rows.num_rows, "stats": _lists(stats)}
            (folder / _RECORD_FILE).write_text(json.dumps(record), encoding="utf-8")
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
        shutil.rmtree(self._stage)
        self.discard()

    def discard(self) -> None:
        """Stop writing; complete episodes stay for the next time."""
        self.is_open = False
        self._lock.close()

    def _locked(self) -> FileIO:
        """An open file that no other process has locked; the system unlocks it at any end."""
        file = FileIO(self._stage / _LOCK_FILE, "w")
        try:
            lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise DatasetError(f"{self.root} is being written by another process") from None
        return file

    def _begin(self, identity: str) -> None:
        """Read what is there; episodes of something else are removed."""
        file = self._stage / _IDENTITY_FILE
        if not file.is_file() or file.read_text(encoding="utf-8") != identity:
            for episode in self._stage.glob("*/"):
                shutil.rmtree(episode)
            with atomic_file(file) as scratch:
                scratch.write_text(identity, encoding="utf-8")
        while (self._episode(self.num_episodes) / _RECORD_FILE).is_file():
            record = self._record(self.num_episodes)
            for task in record["tasks"]:
                self.task_number(task)
            self._lengths.append(record["num_frames"])

    def _copy(self, number: int, folder: DatasetFolder) -> None:
        stage, record = self._episode(number), self._record(number)
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
            folder.add(rows, clips, record["tasks"], _arrays(record["stats"]))

    def _record(self, number: int) -> dict[str, Any]:
        text = (self._episode(number) / _RECORD_FILE).read_text(encoding="utf-8")
        record: dict[str, Any] = json.loads(text)
        return record

    def _episode(self, number: int) -> Path:
        return self._stage / f"{number:06d}"


def staging_folder(root: Path) -> Path:
    """Where the episodes of an unfinished dataset wait."""
    return root.with_name(f".{root.name}.episodes")


def _lists(stats: Stats) -> dict[str, dict[str, Any]]:
    return {
        key: {name: value.tolist() for name, value in each.items()} for key, each in stats.items()
    }


def _arrays(lists: dict[str, dict[str, Any]]) -> Stats:
    return {
        key: {name: np.asarray(value) for name, value in each.items()}
        for key, each in lists.items()
    }
