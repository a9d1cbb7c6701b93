"""Values that no other episode comes near: a glitch of a sensor, or another calibration."""

from collections.abc import Iterator

import numpy as np

from manyhands.data.quality.episode_quality import Fault, QualityFinding
from manyhands.data.quality.motion import DatasetMotion
from manyhands.data.quality.robust import MIN_EPISODES, spread
from manyhands.data.quality.trajectories import Joint

MIN_EXCESS = 6.0  # Robust standard deviations of the extremes of episodes
MIN_DEVIATION = 0.02  # Of what others reach: extremes that differ less are alike
QUANTILES = (0.05, 0.95)  # Of the lows and highs of episodes: what the others reach
# Half of what the others reach, beyond it: demonstrations explore, but not that far.
MIN_OVERSHOOT = 0.5


def outlier_findings(
    motion: DatasetMotion, joints: list[Joint]
) -> Iterator[tuple[int, QualityFinding]]:
    """The joint of each episode that is farthest outside what others reach."""
    if len(motion.low) < MIN_EPISODES or not joints:
        return
    overshoot = overshoots(motion.low, motion.high)
    for place in np.flatnonzero((overshoot >= MIN_OVERSHOOT).any(axis=1)).tolist():
        joint = int(overshoot[place].argmax())
        low, high = reach(motion.low, motion.high)
        name, value = joints[joint].name, float(overshoot[place, joint])
        seen = f"{motion.low[place, joint]:.4g} to {motion.high[place, joint]:.4g}"
        usual = f"{low[joint]:.4g} to {high[joint]:.4g}"
        message = f"{name} covers {seen}, where others cover {usual}"
        yield place, QualityFinding(Fault.OUTLIER, message, value, joint=name)


def reach(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What nearly all episodes stay in, by joint."""
    return _quantile(low, QUANTILES[0]), _quantile(high, QUANTILES[1])


def overshoots(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How far episodes leave the reach of others, in widths of it; zero if that is usual."""
    bottom, top = reach(low, high)
    width = top - bottom
    # Joints that never move have no width, and nothing to compare with.
    is_used = np.greater(width, 0)
    scale = np.where(is_used, width, 1.0)
    beyond = np.maximum(high - top, bottom - low) / scale
    is_unusual = (_excess(high / scale) >= MIN_EXCESS) | (_excess(-low / scale) >= MIN_EXCESS)
    return np.where(is_used & is_unusual, np.nan_to_num(beyond), 0.0)


def _excess(values: np.ndarray) -> np.ndarray:
    return spread(values, MIN_DEVIATION).excess(values)


def _quantile(values: np.ndarray, quantile: float) -> np.ndarray:
    known = np.where(np.isnan(values).all(axis=0), 0.0, values)
    found: np.ndarray = np.nanquantile(known, quantile, axis=0)
    return found
