"""The quality of one episode: measures in plain units, and findings in words."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Fault(StrEnum):
    """What can be wrong with an episode, in the order of the report."""

    JERK = "jerk"
    IDLE = "idle"
    TRUNCATED = "truncated"
    OUTLIER = "outlier"
    FROZEN = "frozen camera"
    DARK = "dark camera"
    OVEREXPOSED = "overexposed camera"
    DUPLICATE = "duplicate"


@dataclass(frozen=True)
class QualityFinding:
    """One fault of an episode."""

    fault: Fault
    message: str  # The fault in words, with the value seen and what is usual
    value: float
    is_worth_excluding: bool = True
    joint: str | None = None
    camera: str | None = None
    frames: tuple[int, int] | None = None  # First and end, counted within the episode


@dataclass(frozen=True)
class CameraQuality:
    """One camera of an episode."""

    camera: str
    brightness: float  # Median over frames of the mean luma, 0 to 255
    frozen_share: float | None  # Of the time the robot moves; None if the camera cannot show it


@dataclass(frozen=True)
class EpisodeQuality:
    """Measures of an episode; those that its frames do not allow are None."""

    episode: int
    num_frames: int
    duration_s: float
    jerk: float | None  # Of the roughest joint without its roughest half second, in medians
    jerk_peak: float | None  # Of the roughest half second, in medians of the dataset
    idle_share: float  # Of frames without motion
    longest_idle_s: float
    ending_speed: float | None  # In the last half second, relative to the usual speed
    nearest_episode: int | None  # The one with the most similar trajectory
    nearest_distance: float | None  # Its root-mean-square distance, in ranges of the joints
    cameras: tuple[CameraQuality, ...] = ()
    findings: tuple[QualityFinding, ...] = field(default=())

    @property
    def is_worth_excluding(self) -> bool:
        """Whether training is better off without it."""
        return any(finding.is_worth_excluding for finding in self.findings)

    @property
    def faults(self) -> set[Fault]:
        """The kinds of its findings."""
        return {finding.fault for finding in self.findings}

    def document(self) -> dict[str, Any]:
        """The record as values for a JSON file."""
        return asdict(self) | {"is_worth_excluding": self.is_worth_excluding}
