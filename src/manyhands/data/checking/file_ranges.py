"""Stretches: the rows of a data file, or the frames of a video file, that belong to an episode."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from manyhands.data.checking.coverage import Coverage, Frames
from manyhands.data.checking.finding import Finding, Severity

_MAX_RANGES = 16  # Most ranges of bad frames reported per episode; more are merged into one


class EpisodeRange(NamedTuple):
    """The rows of a file that belong to one episode."""

    episode: int
    first_frame: int  # In the complete dataset
    num_frames: int
    start: int  # The row in the file, or the number of its frame

    @property
    def end(self) -> int:
        """Where the next episode may begin in the file."""
        return self.start + self.num_frames

    @property
    def inside(self) -> slice:
        """The rows of the file."""
        return slice(self.start, self.end)


@dataclass(frozen=True)
class EpisodeFile:
    """A file of a dataset, and the chosen episodes in it."""

    root: str
    path: str  # Inside the dataset folder
    stretches: tuple[EpisodeRange, ...]

    @property
    def place(self) -> Path:
        """Path of the file."""
        return Path(self.root, self.path)

    @property
    def num_frames(self) -> int:
        """Frames of the chosen episodes."""
        return sum(stretch.num_frames for stretch in self.stretches)

    def divided(self, num_frames: float) -> "Iterator[EpisodeFile]":
        """Split into files of so many frames, or of one longer episode."""
        some: list[EpisodeRange] = []
        for stretch in self.stretches:
            if some and sum(each.num_frames for each in some) + stretch.num_frames > num_frames:
                yield replace(self, stretches=tuple(some))
                some = []
            some.append(stretch)
        yield replace(self, stretches=tuple(some))

    def seen(self, key: str) -> Coverage:
        """Every frame as seen."""
        frames = {each.episode: Frames(each.num_frames, each.num_frames) for each in self.stretches}
        return {key: frames}

    def unseen(self, *keys: str) -> Coverage:
        """No frame as seen."""
        frames = {each.episode: Frames(0, each.num_frames) for each in self.stretches}
        return {key: dict(frames) for key in keys}

    def of_file(self, check: str, message: str, key: str | None = None) -> list[Finding]:
        """A fault that makes every episode of the file useless."""
        return [self.of_episode(stretch, check, message, key) for stretch in self.stretches]

    def of_episode(
        self,
        stretch: EpisodeRange,
        check: str,
        message: str,
        key: str | None = None,
        severity: Severity = "bad",
    ) -> Finding:
        """A fault of a complete episode."""
        frames = (stretch.first_frame, stretch.first_frame + stretch.num_frames)
        return Finding(check, severity, message, stretch.episode, self.path, key, frames)

    def of_frames(self, check: str, key: str, reasons: Mapping[int, str]) -> Iterator[Finding]:
        """Faults of single frames, given by their row or number in the file."""
        bad = np.fromiter(reasons, np.int64, len(reasons))
        for stretch in self.stretches:
            for first, end in ranges_of(np.isin(np.arange(stretch.start, stretch.end), bad)):
                frames = (stretch.first_frame + first, stretch.first_frame + end)
                message = f"{span(first, end)}: {reasons[stretch.start + first]}"
                yield Finding(check, "bad", message, stretch.episode, self.path, key, frames)


def ranges_of(is_bad: np.ndarray) -> list[tuple[int, int]]:
    """First place and end of every run of marks; one range over all where there are too many."""
    edges = np.flatnonzero(np.diff(is_bad.astype(np.int8), prepend=0, append=0))
    ranges = [(int(first), int(end)) for first, end in edges.reshape(-1, 2)]
    return ranges if len(ranges) <= _MAX_RANGES else [(ranges[0][0], ranges[-1][1])]


def span(first: int, end: int) -> str:
    """A range of an episode's frames in words."""
    return f"frame {first}" if end == first + 1 else f"frames {first} to {end - 1}"


def covered_ranges(stretches: Iterable[EpisodeRange]) -> list[tuple[int, int]]:
    """The row ranges that stretches cover; adjacent ones are merged."""
    runs: list[tuple[int, int]] = []
    for stretch in sorted(stretches, key=lambda stretch: stretch.start):
        if runs and stretch.start <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(runs[-1][1], stretch.end))
        else:
            runs.append((stretch.start, stretch.end))
    return runs
