"""Check the rows of a data file: readable, numbered correctly, finite."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from manyhands.data.checking.coverage import Coverage
from manyhands.data.checking.file_ranges import EpisodeFile
from manyhands.data.checking.finding import Check, Finding, error_message
from manyhands.data.checking.jobs import Report
from manyhands.data.checking.statistics import summarize
from manyhands.data.data_files import (
    DataFile,
    check_count,
    check_numbering,
    column_names,
    numbers_of,
)
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.info import Feature
from manyhands.lerobot_format.dataset.tables import read_columns, read_footer

_TOLERANCE_S = 1e-4
_ROW_S = 2e-6
_FILE_S = 2e-3
_COVERED = {
    Check.NUMBERING: None,
    Check.TIMESTAMPS: names.TIMESTAMP,
    Check.TASKS: names.TASK_INDEX,
}  # Checks of rows, and the column they need


@dataclass(frozen=True)
class RowRules:
    """Rules for the rows of all files."""

    features: Mapping[str, Feature]  # Features that are stored in rows
    videos: frozenset[str]  # Features that are stored as video
    derived: frozenset[str]  # Features that follow from the metadata where a file lacks them
    keys: frozenset[str]  # Features whose values are checked
    fps: float
    tasks: Sequence[str]


@dataclass(frozen=True)
class RowFile:
    """A data file, the frames it must hold, and the declared tasks of its chosen episodes."""

    part: EpisodeFile
    held: tuple[tuple[int, int], ...]  # First frame and end of every episode in it, chosen or not
    tasks: tuple[tuple[str, ...], ...]
    rules: RowRules

    @property
    def num_frames(self) -> int:
        """Rows of chosen episodes."""
        return self.part.num_frames

    @property
    def cost_s(self) -> float:
        """Estimated time to check it."""
        return _FILE_S + _ROW_S * self.num_frames * len(self.rules.features)

    def split(self, cost_s: float) -> "Sequence[RowFile]":
        """A file is read completely."""
        return [self]

    def lost(self, reason: str) -> Report:
        """No row of the file can be used."""
        return self._unread(Check.FILES, reason)

    def report(self) -> Report:
        """Check every column except images."""
        try:
            num_rows = read_footer(self.part.place).num_rows
        except DatasetError as error:
            return self._unread(Check.FILES, error)
        try:
            # Before reading: what either number claims may be more than any memory holds.
            check_count(self.part.place, num_rows, sum(end - first for first, end in self.held))
        except DatasetError as error:
            return self._unread(Check.NUMBERING, error)
        frames = np.concatenate([np.arange(*pair) for pair in self.held])
        return self._contents(DataFile(self.part.place, frames))

    def _contents(self, file: DataFile) -> Report:
        """Check the columns of a file with the right number of rows."""
        try:
            present = column_names(file)
            features = self.rules.features
            plain = [key for key in features if key in present and not features[key].is_camera]
            table = read_columns(file.path, plain)
        except DatasetError as error:
            return self._unread(Check.FILES, error)
        try:
            check_numbering(file, table)
        except DatasetError as error:
            return self._unread(Check.NUMBERING, error)
        return _Rows(self, table, present).report()

    def _unread(self, check: Check, error: DatasetError | str) -> Report:
        findings = self.part.of_file(check, error_message(error, self.part.root))
        return Report(findings, coverage=self.part.unseen(*_COVERED))


class _Rows:
    """The columns of a file that could be read."""

    def __init__(self, file: RowFile, table: pa.Table, present: list[str]) -> None:
        self._part = file.part
        self._rules = file.rules
        self._tasks = file.tasks
        self._table = table
        self._findings = list(self._miscounted(present))
        self._values: dict[str, np.ndarray] = {}
        for key in table.column_names:
            if self._rules.features[key].is_number:
                self._adopt(key)

    def report(self) -> Report:
        read = {key: values for key, values in self._values.items() if key in self._rules.keys}
        self._findings += [*self._numbering(), *self._timestamps(), *self._task_numbers()]
        for key, values in read.items():
            self._findings += self._infinite(key, values)
        inside = [stretch.inside for stretch in self._part.stretches]
        summaries = {
            key: summarize(np.concatenate([values[rows] for rows in inside]))
            for key, values in read.items()
        }
        objects = [
            key for key in self._table.column_names if not self._rules.features[key].is_number
        ]
        schemas = [self._table.select(objects).schema.remove_metadata()] if objects else []
        return Report(self._findings, summaries, schemas, coverage=self._coverage())

    def _coverage(self) -> Coverage:
        coverage: Coverage = {}
        for check, key in _COVERED.items():
            is_read = key is None or key in self._values
            coverage |= self._part.seen(check) if is_read else self._part.unseen(check)
        return coverage

    def _miscounted(self, present: list[str]) -> Iterator[Finding]:
        for key in self._rules.features:
            if key not in self._rules.keys or present.count(key) == 1:
                continue
            if key not in present and key in self._rules.derived:
                message = f"the data files have no column {key}; it follows from the metadata"
                yield Finding(Check.COLUMNS, "warning", message, None, "data", key)
                continue
            count = "several columns" if key in present else "no column"
            yield from self._part.of_file(Check.COLUMNS, f"{count} {key}", key)
        known = {*self._rules.features, *self._rules.videos}
        foreign = [key for key in present if key not in known and not key.startswith("__")]
        if foreign:
            message = f"columns that no feature declares are not read: {', '.join(foreign)}"
            yield Finding(Check.COLUMNS, "warning", message, None, names.INFO_FILE)

    def _adopt(self, key: str) -> None:
        try:
            self._values[key] = numbers_of(self._table[key], self._rules.features[key])
        except (ValueError, pa.ArrowException) as error:
            if key in self._rules.keys:
                message = f"column {key}: {' '.join(str(error).split())}"
                self._findings += self._part.of_file(Check.COLUMNS, message, key)

    def _numbering(self) -> Iterator[Finding]:
        for stretch in self._part.stretches:
            wanted = {
                names.FRAME_INDEX: np.arange(stretch.num_frames),
                names.EPISODE_INDEX: np.full(stretch.num_frames, stretch.episode),
            }
            for key in wanted.keys() & self._values.keys():
                seen = self._values[key][stretch.inside].reshape(-1)
                wrong = np.flatnonzero(seen != wanted[key])
                if wrong.size:
                    row, value = wrong[0], seen[wrong[0]]
                    fault = f"{key} is {value} instead of {wanted[key][row]} in frame {row}"
                    yield self._part.of_episode(stretch, Check.NUMBERING, fault)

    def _timestamps(self) -> Iterator[Finding]:
        if names.TIMESTAMP not in self._values:
            return
        stored = self._values[names.TIMESTAMP].reshape(-1)
        for stretch in self._part.stretches:
            seen = stored[stretch.inside].astype(np.float64)
            wanted = np.arange(len(seen)) / self._rules.fps
            # Stored as single precision, late timestamps have fewer digits than the tolerance.
            allowed = _TOLERANCE_S + np.spacing(seen.astype(np.float32))
            back = np.flatnonzero(~(np.diff(seen) > 0))
            off = np.flatnonzero(np.abs(seen - wanted) > allowed)
            if back.size:
                fault = (
                    f"timestamps do not increase after frame {back[0]}, at {seen[back[0]]:.6g} s"
                )
                yield self._part.of_episode(stretch, Check.TIMESTAMPS, fault)
            elif off.size:
                fault = (
                    f"{off.size} timestamps differ from frame / {self._rules.fps:g} fps, the first "
                    f"in frame {off[0]}: {seen[off[0]]:.6g} s instead of {wanted[off[0]]:.6g} s"
                )
                yield self._part.of_episode(stretch, Check.TIMESTAMPS, fault, severity="warning")

    def _task_numbers(self) -> Iterator[Finding]:
        if names.TASK_INDEX not in self._values:
            return
        numbers, texts = self._values[names.TASK_INDEX].reshape(-1), self._rules.tasks
        for stretch, declared in zip(self._part.stretches, self._tasks, strict=True):
            used = np.unique(numbers[stretch.inside])
            unknown = used[(used < 0) | (used >= len(texts))]
            if unknown.size:
                fault = f"refers to task {unknown[0]}, but the dataset has {len(texts)} tasks"
                yield self._part.of_episode(stretch, Check.TASKS, fault)
            elif {texts[number] for number in used} != set(declared):
                fault = "the tasks of its frames differ from its metadata"
                yield self._part.of_episode(stretch, Check.TASKS, fault, severity="warning")

    def _infinite(self, key: str, values: np.ndarray) -> Iterator[Finding]:
        if values.dtype.kind != "f":
            return
        is_bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
        reasons = dict.fromkeys(np.flatnonzero(is_bad).tolist(), f"{key} contains NaN or Inf")
        yield from self._part.of_frames(Check.NUMBERS, key, reasons)
