"""Findings of a dataset check: faults with location and severity."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from manyhands.data.episodes import Selection, Source
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.episode_table import FileColumn

Severity = Literal["warning", "bad"]
State = Literal["ok", "warning", "bad", "skipped"]
Thoroughness = Literal["quick", "full"]


class Check(StrEnum):
    """The checks, in the order of the report."""

    METADATA = "metadata"
    EPISODES = "episodes"
    FILES = "files"
    COLUMNS = "columns"
    NUMBERING = "numbering"
    TIMESTAMPS = "timestamps"
    TASKS = "tasks"
    NUMBERS = "numbers"
    STATISTICS = "statistics"
    VIDEOS = "videos"
    PICTURES = "pictures"


CHECKS: tuple[str, ...] = tuple(check.value for check in Check)


@dataclass(frozen=True)
class Finding:
    """One fault; a bad one without an episode concerns the complete dataset."""

    check: str
    severity: Severity
    message: str
    episode: int | None = None
    file: str | None = None  # Inside the dataset folder
    key: str | None = None  # The feature it concerns; None concerns all
    frames: tuple[int, int] | None = None  # In the complete dataset; set whenever an episode is

    @property
    def text(self) -> str:
        """Place and fault on one line."""
        episode = None if self.episode is None else f"episode {self.episode}"
        # Messages of the readers begin with the file already.
        file = None if self.file is None or self.file in self.message else self.file
        return ": ".join([*filter(None, [", ".join(filter(None, [episode, file]))]), self.message])


@dataclass(frozen=True)
class CheckResult:
    """All findings of one check, and what was checked."""

    root: str
    thoroughness: Thoroughness
    keys: tuple[str, ...]  # Checked features
    num_episodes: int
    num_frames: int
    findings: tuple[Finding, ...]
    looked_at: dict[str, str]  # Scope of each check in words; checks that could not run are absent
    wall_s: float
    cached: bool = False
    is_lasting: bool = True  # Whether a second check of the same files would find the same

    @property
    def is_usable(self) -> bool:
        """Whether nothing bad was found."""
        return not any(finding.severity == "bad" for finding in self.findings)

    @property
    def bad_episodes(self) -> list[int]:
        """Episodes with something bad in them."""
        bad = (finding for finding in self.findings if finding.severity == "bad")
        return sorted({finding.episode for finding in bad if finding.episode is not None})

    def of_check(self, check: str) -> list[Finding]:
        """The findings of one check, the bad first."""
        own = [finding for finding in self.findings if finding.check == check]
        return sorted(own, key=lambda finding: finding.severity)

    def state_of(self, check: str) -> State:
        """The worst that one check found."""
        found = {finding.severity for finding in self.findings if finding.check == check}
        if not found:
            return "ok" if check in self.looked_at else "skipped"
        return "bad" if "bad" in found else "warning"

    def narrowed(self, selection: Selection, keys: Collection[str]) -> "CheckResult":
        """The findings of some episodes and features."""
        episodes = {None, *selection.episodes.tolist()}
        wanted = {None, *keys}
        return replace(
            self,
            findings=tuple(
                finding
                for finding in self.findings
                if finding.episode in episodes and finding.key in wanted
            ),
            keys=tuple(keys),
            num_episodes=len(selection.episodes),
            num_frames=selection.num_rows,
        )

    def document(self) -> dict[str, Any]:
        """The result as values for a JSON file."""
        return asdict(self)


def parse_result(document: dict[str, Any]) -> CheckResult:
    """A result from its document; a TypeError, KeyError or ValueError if it is none."""
    findings = (dict(each) for each in document["findings"])
    parsed = tuple(Finding(**each | {"frames": _pair(each["frames"])}) for each in findings)
    return CheckResult(**document | {"findings": parsed, "keys": tuple(document["keys"])})


def _pair(frames: list[int] | None) -> tuple[int, int] | None:
    if frames is None:
        return None
    first, end = frames
    return int(first), int(end)


def error_message(error: Exception | str, root: str) -> str:
    """An error's message on one line, with paths relative to the dataset folder."""
    return " ".join(str(error).replace(f"{root}/", "").split())


def describe_scope(source: Source, keys: Collection[str], is_full: bool) -> dict[str, str]:
    """By check, for a dataset whose metadata could be read."""
    info, meta = source.meta.info, source.meta
    features = {key: info.features[key] for key in keys}
    frames = counted(source.selection.num_rows, "frame")
    numbers = [key for key, feature in features.items() if feature.is_number]
    described = [key for key, feature in features.items() if feature.is_number or feature.is_camera]
    stored = [key for key, feature in features.items() if feature.dtype != names.VIDEO]
    return {
        Check.METADATA: f"{info.codebase_version}, {counted(len(info.features), 'feature')}",
        Check.EPISODES: f"{counted(len(source.selection.episodes), 'episode')}, {frames}",
        Check.FILES: _files(source, keys),
        Check.COLUMNS: counted(len(stored), "column"),
        Check.NUMBERING: frames,
        Check.TIMESTAMPS: frames,
        Check.TASKS: counted(len(meta.tasks), "task"),
        Check.NUMBERS: counted(len(numbers), "column"),
        Check.STATISTICS: counted(
            len([key for key in described if key not in names.RESERVED_FEATURES]), "feature"
        ),
        Check.VIDEOS: _cameras(source, keys, names.VIDEO, is_full),
        Check.PICTURES: _cameras(source, keys, names.IMAGE, is_full),
    }


def counted(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _files(source: Source, keys: Collection[str]) -> str:
    def number(files: FileColumn) -> int:
        return len(np.unique(files.of_episode[source.selection.episodes]))

    table = source.meta.episodes
    videos = [number(files) for key, files in table.video_files.items() if key in keys]
    data = counted(number(table.data_files), "data file")
    return f"{data}, {counted(sum(videos), 'video file')}" if videos else data


def _cameras(source: Source, keys: Collection[str], kind: str, is_full: bool) -> str:
    cameras = [key for key in keys if source.meta.info.features[key].dtype == kind]
    if not cameras:
        return "none"
    per = "file" if kind == names.VIDEO else "episode"
    which = (
        counted(source.selection.num_rows * len(cameras), "frame")
        if is_full
        else f"first and last frame of each {per}"
    )
    return f"{counted(len(cameras), 'camera')}, {which}"
