"""Faults of cameras: frozen while the robot moves, dark, overexposed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from manyhands.data.quality.camera_samples import FROZEN_LEVEL, CameraSamples
from manyhands.data.quality.episode_quality import CameraQuality, Fault, QualityFinding
from manyhands.data.quality.robust import MIN_EPISODES, spread

MOVING = 0.5  # In median motions between samples; less may happen where no pixel shows it
FROZEN_SHARE = 0.15  # Of the camera's median change while the robot moves
MIN_VISIBLE = 12.0  # A camera whose images usually change less does not show the robot
# In median motions between samples: as far as the robot goes while the image usually changes.
MIN_FROZEN_MOTION = 1.0
MIN_FROZEN_S = 0.8  # Shorter gaps are dropped frames, which training does not notice

BLACK, WHITE = 32.0, 235.0  # Nothing can be seen if all pixels are beyond
MIN_EXCESS = 6.0  # Robust standard deviations of brightness
MIN_LIGHT_DEVIATION = 5.0  # Levels; daylight changes more between episodes
MIN_LIGHT_DIFFERENCE = 60.0  # Levels: a quarter of the scale, a lamp switched off
MAX_UNUSABLE = 0.1  # Share of samples of an episode in which nothing can be seen


class CameraRun(NamedTuple):
    """An episode's samples of a camera, and how far the robot moves between them."""

    samples: CameraSamples
    motions: np.ndarray


class CameraNorm(NamedTuple):
    """What is usual for one camera across episodes."""

    motion: float  # Median motion between samples
    change: float  # Median change while the robot moves
    brightness: float
    deviation: float

    def is_moving(self, run: CameraRun) -> np.ndarray:
        """Between which samples the robot moves enough to be seen."""
        return run.motions > MOVING * self.motion

    @property
    def shows_motion(self) -> bool:
        """Whether a frozen image can be told from a live one."""
        return self.motion > 0 and self.change >= MIN_VISIBLE


def camera_norm(runs: Sequence[CameraRun]) -> CameraNorm:
    """The norm of one camera, from all its episodes."""
    motions = np.concatenate([run.motions for run in runs])
    changes = np.concatenate([run.samples.changes for run in runs])
    motion = float(np.median(motions)) if len(motions) else 0.0
    moving = changes[motions > MOVING * motion]
    light = np.array([np.median(run.samples.brightness) for run in runs])
    usual = spread(light, MIN_LIGHT_DEVIATION)
    change = float(np.median(moving)) if len(moving) else 0.0
    return CameraNorm(motion, change, float(usual.center), float(usual.deviation))


def judged_camera(
    run: CameraRun, norm: CameraNorm, fps: float
) -> tuple[CameraQuality, list[QualityFinding]]:
    """The measures of a camera in an episode, and its faults."""
    frozen = frozen_steps(run, norm)
    is_moving = norm.is_moving(run)
    share = float((frozen & is_moving).sum() / max(is_moving.sum(), 1))
    quality = CameraQuality(
        run.samples.key,
        float(np.median(run.samples.brightness)),
        share if norm.shows_motion else None,
    )
    light = [*_light_findings(run.samples, norm)]
    return quality, [*_frozen_findings(run, norm, frozen, fps), *light]


def frozen_steps(run: CameraRun, norm: CameraNorm) -> np.ndarray:
    """Between which samples the image does not change."""
    if not norm.shows_motion:
        return np.zeros(len(run.samples.changes), bool)
    return run.samples.changes <= min(FROZEN_LEVEL, FROZEN_SHARE * norm.change)


def _frozen_findings(
    run: CameraRun, norm: CameraNorm, frozen: np.ndarray, fps: float
) -> Iterator[QualityFinding]:
    key, frames = run.samples.key, run.samples.frames
    edges = np.flatnonzero(np.diff(frozen.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    worst: tuple[float, tuple[int, int]] | None = None
    for first, end in edges.tolist():
        motion = float(run.motions[first:end].sum())
        duration_s = float(frames[end] - frames[first]) / fps
        if motion >= MIN_FROZEN_MOTION * norm.motion and duration_s >= MIN_FROZEN_S:
            worst = max(worst or (0.0, (0, 0)), (duration_s, (first, end)))
    if worst is not None:
        duration_s, (first, end) = worst
        span = (int(frames[first]), int(frames[end]) + 1)
        message = (
            f"{key} is frozen for {duration_s:.1f} s while the robot moves, frames {span[0]} to "
            f"{span[1] - 1}"
        )
        yield QualityFinding(Fault.FROZEN, message, duration_s, camera=key, frames=span)


def _light_findings(samples: CameraSamples, norm: CameraNorm) -> Iterator[QualityFinding]:
    light = float(np.median(samples.brightness))
    difference = light - norm.brightness
    is_unusual = (
        abs(difference) >= MIN_LIGHT_DIFFERENCE and abs(difference) >= MIN_EXCESS * norm.deviation
    )
    usual = f", where {norm.brightness:.0f} is usual" if np.isfinite(norm.brightness) else ""
    is_black, is_white = samples.bright < BLACK, samples.dim > WHITE
    for fault, is_blank, is_off, word in (
        (Fault.DARK, is_black, is_unusual and difference < 0, "dark"),
        (Fault.OVEREXPOSED, is_white, is_unusual and difference > 0, "overexposed"),
    ):
        if is_off or float(is_blank.mean()) > MAX_UNUSABLE:
            seen = f"mean luma {light:.0f} of 255{usual}"
            if is_blank.any():
                seen += f"; nothing can be seen in {is_blank.mean():.0%} of frames"
            message = f"{samples.key} is {word}: {seen}"
            yield QualityFinding(fault, message, light, camera=samples.key)


def judge_cameras(
    runs: Mapping[str, Mapping[int, CameraRun]], fps: float
) -> Iterator[tuple[int, CameraQuality, list[QualityFinding]]]:
    """Every camera of every episode; runs are by camera and place of the episode."""
    for own in runs.values():
        norm = camera_norm([*own.values()])
        if len(own) < MIN_EPISODES:
            norm = norm._replace(change=0.0)
        for place, run in own.items():
            yield place, *judged_camera(run, norm, fps)
