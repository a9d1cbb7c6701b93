"""Findings of a dataset check: faults with location and severity."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from manyhands.data.checking.coverage import Coverage, narrowed, parse_coverage
from manyhands.data.episodes import Selection
from manyhands.lerobot_format.dataset.unusable_file import UnusableFile

Severity = Literal["warning", "bad"]
State = Literal["ok", "warning", "bad", "incomplete", "skipped"]
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
    IMAGES = "images"


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
    coverage: Coverage = field(default_factory=dict)  # Frames that could be looked at
    incomplete: tuple[str, ...] = ()  # Checks that could not look at every frame
    num_lost_episodes: int = 0  # Episodes that are declared, but not listed
    num_lost_frames: int = 0  # Frames they may have had

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
        if not found and check in self.looked_at:
            return "incomplete" if check in self.incomplete else "ok"
        if not found:
            return "skipped"
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
            coverage=narrowed(self.coverage, episodes),
        )

    def document(self) -> dict[str, Any]:
        """The result as values for a JSON file."""
        return asdict(self)


def parse_result(document: dict[str, Any]) -> CheckResult:
    """A result from its document; a TypeError, KeyError or ValueError if it is none."""
    findings = (dict(each) for each in document["findings"])
    parsed = tuple(Finding(**each | {"frames": _pair(each["frames"])}) for each in findings)
    sets = {name: tuple(document[name]) for name in ("keys", "incomplete")}
    coverage = parse_coverage(document["coverage"])
    return CheckResult(**document | {"findings": parsed, "coverage": coverage} | sets)


def _pair(frames: list[int] | None) -> tuple[int, int] | None:
    if frames is None:
        return None
    first, end = frames
    return int(first), int(end)


def error_message(error: Exception | str, root: str) -> str:
    """An error's message on one line, with paths relative to the dataset folder."""
    if isinstance(error, UnusableFile):
        # The remedy is the same for many files, and told once.
        error = f"{error.path} {error.cause}"
    return " ".join(str(error).replace(f"{root}/", "").split())


def counted(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
