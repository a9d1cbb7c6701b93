"""Judge the quality of every episode of a dataset against the others."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manyhands.cores import num_cores
from manyhands.data.checking.worker_pool import run_jobs
from manyhands.data.episodes import Source
from manyhands.data.quality.camera_samples import CameraSamples, camera_jobs
from manyhands.data.quality.episode_quality import EpisodeQuality, Fault
from manyhands.data.quality.number_quality import NumberQuality
from manyhands.data.quality.trajectories import open_trajectories

Progress = Callable[[int, int], None]  # Called with the number of frames decoded and the total


@dataclass(frozen=True, kw_only=True)
class QualityOptions:
    """How the quality of a dataset is judged."""

    num_workers: int | None = None  # None: one per core; small jobs run in this process
    on_progress: Progress | None = None
    home: Path | None = None  # Folder for files that processes share; None is the default
    max_s: float | None = None  # Time for sampling cameras, after which the others are not judged


@dataclass(frozen=True)
class DatasetQuality:
    """The quality of all chosen episodes."""

    root: str
    episodes: tuple[EpisodeQuality, ...]
    wall_s: float
    is_complete: bool = True  # Whether there was time for all cameras

    @property
    def exclude_episodes(self) -> list[int]:
        """Numbers of the episodes that training is better off without."""
        return [each.episode for each in self.episodes if each.is_worth_excluding]

    @property
    def exclude_flag(self) -> str:
        """The flag that excludes them; empty if there are none."""
        return exclude_flag(self.exclude_episodes)

    def with_fault(self, fault: Fault) -> list[int]:
        """Numbers of the episodes with one kind of fault."""
        return [each.episode for each in self.episodes if fault in each.faults]

    def document(self) -> dict[str, Any]:
        """The quality as values for a JSON file."""
        return {
            "root": self.root,
            "episodes": [each.document() for each in self.episodes],
            "exclude_episodes": self.exclude_episodes,
            "exclude_flag": self.exclude_flag,
            "faults": {fault.value: self.with_fault(fault) for fault in Fault},
            "wall_s": self.wall_s,
        }


def exclude_flag(episodes: Sequence[int]) -> str:
    """The flag of training that excludes episodes; empty if there are none."""
    numbers = ",".join(map(str, episodes))
    return f"--dataset.exclude_episodes=[{numbers}]" if numbers else ""


def judge_quality(source: Source, options: QualityOptions | None = None) -> DatasetQuality:
    """Judge the chosen episodes of a dataset by their numbers and by samples of their images."""
    options = options or QualityOptions()
    started = time.perf_counter()
    numbers = NumberQuality(open_trajectories(source, options.home))
    samples, is_complete = _samples(source, options)
    cameras = numbers.judge_cameras(samples)
    episodes = numbers.records()
    for place, quality, findings in cameras:
        episodes[place] = replace(
            episodes[place],
            cameras=(*episodes[place].cameras, quality),
            findings=(*episodes[place].findings, *findings),
        )
    wall_s = time.perf_counter() - started
    return DatasetQuality(str(source.root), tuple(map(_sorted, episodes)), wall_s, is_complete)


def _sorted(episode: EpisodeQuality) -> EpisodeQuality:
    order = list(Fault)
    findings = sorted(episode.findings, key=lambda finding: order.index(finding.fault))
    return replace(episode, findings=tuple(findings))


def _samples(source: Source, options: QualityOptions) -> tuple[list[CameraSamples], bool]:
    """Samples of all cameras, and whether there was time for them."""
    jobs, found, started = [*camera_jobs(source)], [], time.perf_counter()
    done, total = 0, sum(job.num_frames for job in jobs)
    num_workers = num_cores() if options.num_workers is None else options.num_workers
    for job, samples in run_jobs(jobs, num_workers):
        found += samples
        done += job.num_frames
        if options.on_progress is not None:
            options.on_progress(done, total)
        if options.max_s is not None and time.perf_counter() - started > options.max_s:
            break
    return found, done == total
