"""The quality of episodes as far as their actions, states and labels tell it."""

from collections.abc import Iterable, Iterator

import numpy as np

from manyhands.data.quality.camera_faults import CameraRun, judge_cameras
from manyhands.data.quality.camera_samples import CameraSamples
from manyhands.data.quality.duplicates import Neighbors, duplicate_findings, resampled
from manyhands.data.quality.ending import label_findings, length_findings, motion_findings
from manyhands.data.quality.episode_quality import CameraQuality, EpisodeQuality, QualityFinding
from manyhands.data.quality.idle import idle_findings
from manyhands.data.quality.jerk import DatasetJerk
from manyhands.data.quality.motion import DatasetMotion, Idleness, idleness
from manyhands.data.quality.outliers import outlier_findings, reach
from manyhands.data.quality.trajectories import Trajectories


class NumberQuality:
    """Measures that compare the trajectories of all episodes."""

    def __init__(self, trajectories: Trajectories) -> None:
        self._trajectories = trajectories
        self._motion = DatasetMotion(trajectories)
        self._jerk = DatasetJerk(self._motion, trajectories.joints)
        self._idle: list[Idleness] = []
        self._ending_speeds = np.full(len(trajectories), np.nan)
        self._shapes: dict[int, np.ndarray] = {}  # Resampled trajectories, by place
        self._measure()
        self._compared = np.array([*self._shapes], np.int64)
        self._neighbors = Neighbors([*self._shapes.values()])

    def records(self) -> list[EpisodeQuality]:
        """A record per episode, with what its numbers show."""
        findings: list[list[QualityFinding]] = [[] for _ in range(len(self._trajectories))]
        for place, finding in self._findings():
            findings[place].append(finding)
        return [self._record(place, tuple(own)) for place, own in enumerate(findings)]

    def judge_cameras(
        self, samples: Iterable[CameraSamples]
    ) -> list[tuple[int, CameraQuality, list[QualityFinding]]]:
        """Judge samples of cameras by how far the robot moves between them."""
        places = {episode: place for place, episode in enumerate(self._trajectories.episodes)}
        runs: dict[str, dict[int, CameraRun]] = {}
        for each in sorted(samples, key=lambda each: (each.key, each.episode)):
            place = places[each.episode]
            speeds = self._motion.speeds(self._trajectories.read(place))
            traveled = np.concatenate([[0.0], np.cumsum(speeds)])[each.frames]
            runs.setdefault(each.key, {})[place] = CameraRun(each, np.diff(traveled))
        return [*judge_cameras(runs, self._trajectories.fps)]

    def _measure(self) -> None:
        motion, window = self._motion, self._motion.window
        low, high = reach(motion.low, motion.high)
        for place in range(len(self._trajectories)):
            values = self._trajectories.read(place)
            self._idle.append(idleness(motion.is_idle(values)))
            speeds = motion.speeds(values)
            if len(speeds) > window:
                self._ending_speeds[place] = speeds[-window:].mean()
            shape = resampled(values, high - low)
            if shape is not None:
                self._shapes[place] = shape

    def _findings(self) -> Iterator[tuple[int, QualityFinding]]:
        trajectories, motion = self._trajectories, self._motion
        yield from self._jerk.findings()
        yield from idle_findings(self._idle, trajectories.fps)
        yield from label_findings(trajectories.end_labels())
        yield from length_findings(trajectories.lengths, trajectories.first_tasks)
        yield from motion_findings(self._ending_speeds, trajectories.lengths, motion.window)
        yield from outlier_findings(motion, trajectories.joints)
        numbers = trajectories.episodes[self._compared]
        for row, finding in duplicate_findings(self._neighbors, numbers):
            yield int(self._compared[row]), finding

    def _record(self, place: int, findings: tuple[QualityFinding, ...]) -> EpisodeQuality:
        trajectories, idle = self._trajectories, self._idle[place]
        nearest, distance = self._nearest(place)
        return EpisodeQuality(
            episode=int(trajectories.episodes[place]),
            num_frames=int(trajectories.lengths[place]),
            duration_s=float(trajectories.lengths[place] / trajectories.fps),
            jerk=_greatest(self._jerk.lasting[place]),
            jerk_peak=_greatest(self._jerk.peaks[place]),
            idle_share=idle.share,
            longest_idle_s=(idle.longest[1] - idle.longest[0]) / trajectories.fps,
            ending_speed=_greatest(self._ending_speeds[place : place + 1]),
            nearest_episode=nearest,
            nearest_distance=distance,
            findings=findings,
        )

    def _nearest(self, place: int) -> tuple[int | None, float | None]:
        row = int(np.searchsorted(self._compared, place))
        if place not in self._shapes or len(self._compared) < 2:
            return None, None
        nearest = self._compared[self._neighbors.place[row]]
        return int(self._trajectories.episodes[nearest]), float(self._neighbors.distance[row])


def _greatest(values: np.ndarray) -> float | None:
    """The greatest known value; None without any, as JSON has no NaN."""
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else None
