"""Motion of an episode: jerk by joint, and stretches in which nothing moves."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from manyhands.data.quality.robust import longest_run, median_of_positive
from manyhands.data.quality.trajectories import Trajectories

WINDOW_S = 0.5  # About the shortest disturbance that a person notices in a recording
MIN_WINDOW = 4  # Frames; a single wrong value disturbs as many third differences
SPEED_QUANTILE = 0.75  # Usual speed: demonstrations rest for part of their time
# A twentieth of the usual speed: slower is drift, or the noise of encoders.
IDLE_SPEED = 0.05
# Grippers that open and close in one frame are not jerky, however often they do.
MAX_SWITCH_VALUES = 8


@dataclass(frozen=True)
class EpisodeMotion:
    """Measures of one episode by joint, in the joint's own units per frame."""

    speed: np.ndarray  # Usual speed
    travel: np.ndarray  # Mean absolute first difference
    jerk: np.ndarray  # Mean absolute third difference outside of the roughest window
    peak_jerk: np.ndarray  # The same within the roughest window
    peak_travel: np.ndarray  # Mean absolute first difference in that window
    peak_size: np.ndarray  # How far a frame in that window is off a smooth path
    peak_frame: np.ndarray  # First frame of that window
    low: np.ndarray
    high: np.ndarray
    is_switch: np.ndarray  # Whether the joint has few distinct values


def num_window_frames(fps: float) -> int:
    """Frames of the window in which motion is judged."""
    return max(MIN_WINDOW, round(WINDOW_S * fps))


def measure(values: np.ndarray, window: int) -> EpisodeMotion:
    """Measure an episode, given its values (frames, joints); NaN if it is too short."""
    num_frames, num_joints = values.shape
    unknown = np.full(num_joints, np.nan)
    motion = EpisodeMotion(
        speed=unknown,
        travel=unknown,
        jerk=unknown,
        peak_jerk=unknown,
        peak_travel=unknown,
        peak_size=unknown,
        peak_frame=np.zeros(num_joints, np.int64),
        low=values.min(axis=0) if num_frames else unknown,
        high=values.max(axis=0) if num_frames else unknown,
        is_switch=np.array([len(np.unique(each)) <= MAX_SWITCH_VALUES for each in values.T], bool),
    )
    if num_frames < window + 3:
        return motion
    steps, thirds = np.abs(np.diff(values, axis=0)), np.abs(np.diff(values, 3, axis=0))
    means = _sliding_means(thirds, window)
    peak, columns = means.argmax(axis=0), np.arange(num_joints)
    return replace(
        motion,
        speed=np.quantile(steps, SPEED_QUANTILE, axis=0),
        travel=steps.mean(axis=0),
        jerk=_mean_outside(thirds, peak, window),
        peak_jerk=means[peak, columns],
        # A third difference spans three first differences.
        peak_travel=_sliding_means(steps, window + 2)[peak, columns],
        # A frame that is off by one has third differences of one, three, three and one.
        peak_size=_windows(thirds, window)[peak, columns].max(axis=-1) / 3,
        peak_frame=peak,
    )


class DatasetMotion:
    """Measures of all episodes, of shape (episodes, joints)."""

    def __init__(self, trajectories: Trajectories) -> None:
        self.window = num_window_frames(trajectories.fps)
        measured = [
            measure(trajectories.read(place), self.window) for place in range(len(trajectories))
        ]
        self.speed = np.stack([each.speed for each in measured])
        self.travel = np.stack([each.travel for each in measured])
        self.jerk = np.stack([each.jerk for each in measured])
        self.peak_jerk = np.stack([each.peak_jerk for each in measured])
        self.peak_travel = np.stack([each.peak_travel for each in measured])
        self.peak_size = np.stack([each.peak_size for each in measured])
        self.peak_frame = np.stack([each.peak_frame for each in measured])
        self.low = np.stack([each.low for each in measured])
        self.high = np.stack([each.high for each in measured])
        self.is_switch = np.stack([each.is_switch for each in measured]).all(axis=0)

    @cached_property
    def usual_speed(self) -> np.ndarray:
        """Speed by joint over the episodes that move it; zero for one that never moves."""
        # Some joints move for less than a quarter of the time: then their mean is what there is.
        known = median_of_positive(self.speed)
        return np.where(known > 0, known, median_of_positive(self.travel))

    def speeds(self, values: np.ndarray) -> np.ndarray:
        """Speed (frames - 1) of the fastest joint, in its usual speeds."""
        moving = self.usual_speed > 0
        if not moving.any():
            return np.zeros(max(len(values) - 1, 0))
        steps = np.abs(np.diff(values[:, moving], axis=0))
        fastest: np.ndarray = (steps / self.usual_speed[moving]).max(axis=1)
        return fastest

    def is_idle(self, values: np.ndarray) -> np.ndarray:
        """Which frames are in a window across which no joint gets anywhere."""
        moving = self.usual_speed > 0
        marks = np.zeros(len(values), bool)
        if len(values) <= self.window or not moving.any():
            return marks
        displaced = np.abs(values[self.window :, moving] - values[: -self.window, moving])
        bound = IDLE_SPEED * self.window * self.usual_speed[moving]
        for start in np.flatnonzero((displaced < bound).all(axis=1)):
            marks[start : start + self.window + 1] = True
        return marks


@dataclass(frozen=True)
class Idleness:
    """Frames of an episode without motion."""

    share: float
    longest: tuple[int, int]  # First frame and end of the longest stretch


def idleness(is_idle: np.ndarray) -> Idleness:
    """Summarize marks of idle frames."""
    return Idleness(float(is_idle.mean()) if len(is_idle) else 0.0, longest_run(is_idle))


def _mean_outside(values: np.ndarray, first: np.ndarray, window: int) -> np.ndarray:
    """Means by column without its window, or of all values if those are all."""
    rows = np.arange(len(values))[:, None]
    is_outside = (rows < first) | (rows >= first + window) | (len(values) == window)
    means: np.ndarray = np.where(is_outside, values, 0.0).sum(axis=0) / is_outside.sum(axis=0)
    return means


def _sliding_means(values: np.ndarray, window: int) -> np.ndarray:
    means: np.ndarray = _windows(values, window).mean(-1)
    return means


def _windows(values: np.ndarray, window: int) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(values, window, axis=0)
