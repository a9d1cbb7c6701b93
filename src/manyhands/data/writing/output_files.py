"""Data and video files of a dataset being written; a full one is closed and the next begun."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from manyhands.data.images.encoder import ClipFile
from manyhands.data.images.packets import Clip
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.episodes import Placement
from manyhands.lerobot_format.dataset.tables import WRITING

MEGABYTE = 1024**2

FileNumber = tuple[int, int]  # Chunk and file


@dataclass(frozen=True)
class SizeLimits:
    """When to begin a new file or folder."""

    files_per_chunk: int = 1000
    data_file_bytes: int = 100 * MEGABYTE
    video_file_bytes: int = 200 * MEGABYTE

    def after(self, number: FileNumber | None) -> FileNumber:
        """The file that follows; the first where there is none yet."""
        if number is None:
            return (0, 0)
        chunk, file = number
        return (chunk + 1, 0) if file + 1 == self.files_per_chunk else (chunk, file + 1)


class FrameFiles:
    """The files below `data`; an episode is a row group and never split."""

    def __init__(self, root: Path, limits: SizeLimits) -> None:
        self._root = root
        self._limits = limits
        self._number: FileNumber | None = None
        self._sink: pa.OSFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._num_rows = 0

    def append(self, episode: pa.Table) -> FileNumber:
        """Add an episode; return its location."""
        # The columns of annotations may be of another type.
        is_alike = self._writer is not None and episode.schema.equals(self._writer.schema)
        if not is_alike or self._is_full(episode.num_rows):
            self._begin(episode.schema)
        assert self._number is not None and self._writer is not None
        self._writer.write_table(episode, row_group_size=episode.num_rows)
        self._num_rows += episode.num_rows
        return self._number

    def close(self) -> None:
        """Write the footer of the open file."""
        if self._writer is not None and self._sink is not None:
            self._writer.close()
            self._sink.close()

    def _is_full(self, num_new_rows: int) -> bool:
        assert self._sink is not None
        size = self._sink.tell()
        expected = size + size / self._num_rows * num_new_rows
        return bool(expected >= self._limits.data_file_bytes)

    def _begin(self, schema: pa.Schema) -> None:
        self.close()
        self._number = self._limits.after(self._number)
        chunk, file = self._number
        path = self._root / names.DATA_PATH.format(chunk_index=chunk, file_index=file)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pq.ParquetWriter(self._sink, schema, **WRITING)
        self._num_rows = 0


class ClipFiles:
    """The video files of one camera; an episode's clip is never split."""

    def __init__(self, root: Path, key: str, fps: int, limits: SizeLimits) -> None:
        self._root = root
        self._key = key
        self._fps = fps
        self._limits = limits
        self._number: FileNumber | None = None
        self._file: ClipFile | None = None

    def append(self, clip: Clip) -> Placement:
        """Add an episode's clip; return its location."""
        if self._file is None or self._is_full(clip.num_bytes) or not self._file.takes(clip):
            self._begin()
        assert self._number is not None and self._file is not None
        start = self._file.num_frames
        self._file.append(clip)
        chunk, file = self._number
        # Frame counts over the rate, not summed durations, which would drift.
        return Placement(chunk, file, start / self._fps, self._file.num_frames / self._fps)

    def close(self) -> None:
        """Write the index of the open file."""
        if self._file is not None:
            self._file.close()

    def _is_full(self, num_new_bytes: int) -> bool:
        assert self._file is not None
        return self._file.num_bytes + num_new_bytes >= self._limits.video_file_bytes

    def _begin(self) -> None:
        self.close()
        self._number = self._limits.after(self._number)
        chunk, file = self._number
        path = names.VIDEO_PATH.format(video_key=self._key, chunk_index=chunk, file_index=file)
        self._file = ClipFile(self._root / path, self._fps)
