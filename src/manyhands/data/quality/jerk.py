"""Jerky episodes: trembling throughout, or a jolt, compared joint by joint with the others."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from manyhands.data.quality.episode_quality import Fault, QualityFinding
from manyhands.data.quality.motion import DatasetMotion
from manyhands.data.quality.outliers import reach
from manyhands.data.quality.robust import logarithms, spread
from manyhands.data.quality.trajectories import Joint

# Jerk varies by factors between people and tasks, so it is compared in logarithms.
MIN_EXCESS = 4.0  # Robust standard deviations; one of 30,000 normal values is beyond
MIN_DEVIATION = 0.2  # Of logarithms: demonstrations that differ by a fifth are alike
MIN_FACTOR = 2.0  # Less than twice the usual jerk is hard to see
# Above one, a joint turns back within a few frames: quick, smooth motion stays far below.
MIN_JOLT_ROUGHNESS = 1.0
# Of the joint's range over all episodes: where it hardly moves, the slightest motion has many times
# the usual jerk.
MIN_JOLT_SIZE = 0.05
MIN_LASTING_JERK = 0.0005  # That of a tremor of 5 Hz by 0.3 %, at 50 frames per second
# Relative to the usual: a quick episode has more jerk and more speed, a rough one only the former.
MIN_ROUGHNESS_FACTOR = 1.25


class DatasetJerk:
    """Jerk of every episode and joint, in medians of the joint across episodes."""

    def __init__(self, motion: DatasetMotion, joints: list[Joint]) -> None:
        self._motion = motion
        self._joints = joints
        # Switches, and joints that rest in most episodes, have no usual jerk.
        is_usual = np.nan_to_num(np.nanmedian(_known(motion.jerk), axis=0)) > 0
        self._judged = ~motion.is_switch & is_usual

    @cached_property
    def lasting(self) -> np.ndarray:
        """Mean jerk of episodes and joints over the median; NaN where it is not judged."""
        return self._relative(self._motion.jerk)

    @cached_property
    def peaks(self) -> np.ndarray:
        """Jerk of the roughest half second over the median."""
        return self._relative(self._motion.peak_jerk)

    def findings(self) -> Iterator[tuple[int, QualityFinding]]:
        """The roughest joint of each jerky episode, with the place of the episode."""
        for place, joint in _worst(self._trembling):
            factor, name = self.lasting[place, joint], self._joints[joint].name
            message = f"{name} trembles: {factor:.1f} times the usual jerk"
            yield place, QualityFinding(Fault.JERK, message, float(factor), joint=name)
        for place, joint in _worst(np.where(_any(self._trembling), np.nan, self._jolts)):
            factor, name = self.peaks[place, joint], self._joints[joint].name
            first = int(self._motion.peak_frame[place, joint])
            frames = (first, first + self._motion.window + 3)
            message = (
                f"{name} jolts in frames {frames[0]} to {frames[1] - 1}: {factor:.1f} times the "
                "usual peak jerk"
            )
            yield (
                place,
                QualityFinding(Fault.JERK, message, float(factor), joint=name, frames=frames),
            )

    @cached_property
    def _trembling(self) -> np.ndarray:
        """Excess of lasting jerk where it is too much, else NaN."""
        excess = _excess(self.lasting)
        roughness = _ratio(self._motion.jerk, self._motion.travel)
        usual = np.nanmedian(_known(roughness), axis=0)
        is_bad = (excess >= MIN_EXCESS) & (self.lasting >= MIN_FACTOR)
        is_bad &= self._motion.jerk >= MIN_LASTING_JERK * self._range
        return np.where(is_bad & (roughness >= MIN_ROUGHNESS_FACTOR * usual), excess, np.nan)

    @cached_property
    def _jolts(self) -> np.ndarray:
        excess, motion = _excess(self.peaks), self._motion
        roughness = _ratio(motion.peak_jerk, motion.peak_travel)
        is_bad = (excess >= MIN_EXCESS) & (self.peaks >= MIN_FACTOR)
        is_bad &= motion.peak_size >= MIN_JOLT_SIZE * self._range
        return np.where(is_bad & (roughness >= MIN_JOLT_ROUGHNESS), excess, np.nan)

    @cached_property
    def _range(self) -> np.ndarray:
        low, high = reach(self._motion.low, self._motion.high)
        width: np.ndarray = high - low
        return width

    def _relative(self, jerk: np.ndarray) -> np.ndarray:
        known = np.where(self._judged, jerk, np.nan)
        return _ratio(known, np.nanmedian(_known(known), axis=0))


def _known(values: np.ndarray) -> np.ndarray:
    """Values with zero for joints that no episode measures, whose median would warn."""
    return np.where(np.isnan(values).all(axis=0), 0.0, values)


def _ratio(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    unknown = np.full(np.broadcast_shapes(values.shape, others.shape), np.nan)
    ratios: np.ndarray = np.divide(values, others, where=np.greater(others, 0), out=unknown)
    return ratios


def _excess(factors: np.ndarray) -> np.ndarray:
    logs = logarithms(factors)
    return spread(logs, MIN_DEVIATION).excess(logs)


def _any(marks: np.ndarray) -> np.ndarray:
    has_any: np.ndarray = (~np.isnan(marks)).any(axis=1, keepdims=True)
    return has_any


def _worst(excess: np.ndarray) -> Iterator[tuple[int, int]]:
    """Place and joint of the greatest excess of every episode that has one."""
    for place in np.flatnonzero(~np.isnan(excess).all(axis=1)).tolist():
        yield place, int(np.nanargmax(excess[place]))
