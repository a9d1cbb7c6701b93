"""Decode frames ahead on all cores; cached frames are not decoded again."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field

import numpy as np

from manyhands.data.cache.camera import CachedCamera
from manyhands.data.cache.frame_cache import (
    CacheOptions,
    FrameCaches,
    cameras_of,
    plan_frame_caches,
)
from manyhands.data.episodes import Source
from manyhands.data.loading.forkserver import FORKSERVER, start_context
from manyhands.data.read_options import ReadOptions
from manyhands.errors import DatasetError, EnvironmentFault, UserError

Progress = Callable[[int, int], None]  # Called with the number of frames done and the total

MIN_FRAMES_PER_PROCESS = 200  # Fewer frames decode faster than a process starts


@dataclass
class FillSummary:
    """Counts of a fill."""

    num_frames: int = 0
    num_decoded: int = 0
    faults: list[str] = field(default_factory=list)  # Undecodable clips, or why caching stopped


Clip = tuple[int, int, int]  # Index of a camera, its first frame and end


def fill(
    caches: FrameCaches, num_workers: int, on_progress: Progress = lambda done, total: None
) -> FillSummary:
    """Cache every frame of the chosen episodes that fits."""
    cameras, clips = _work(caches)
    total = sum(end - first for _, first, end in clips)
    missing = sum(len(cameras[place].missing(np.arange(*span))) for place, *span in clips)
    num_processes = min(num_workers, missing // MIN_FRAMES_PER_PROCESS)
    summary = FillSummary()
    try:
        for clip, num_decoded, fault in _filled(cameras, clips, num_processes):
            summary.num_frames += clip[2] - clip[1]
            summary.num_decoded += num_decoded
            if fault is not None and fault not in summary.faults:
                summary.faults.append(fault)
            on_progress(summary.num_frames, total)
    finally:
        caches.make_durable()
    return summary


def _work(caches: FrameCaches) -> tuple[list[CachedCamera], list[Clip]]:
    cameras: list[CachedCamera] = []
    clips: list[Clip] = []
    for cache in filter(None, caches.caches):
        for camera in cache.cameras:
            clips += [(len(cameras), int(first), int(end)) for first, end in cache.frame_bounds]
            cameras.append(camera)
    return cameras, [clip for clip in clips if clip[2] > clip[1]]


Filled = tuple[Clip, int, str | None]


def _filled(cameras: list[CachedCamera], clips: list[Clip], num_processes: int) -> Iterator[Filled]:
    if num_processes < 2:
        yield from (_fill_clip(cameras, clip) for clip in clips)
        return
    context = start_context(FORKSERVER)
    with ProcessPoolExecutor(num_processes, context, _take_cameras, (cameras,)) as pool:
        try:
            yield from pool.map(_fill_own, clips)
        except BrokenProcessPool:
            raise EnvironmentFault(
                "a decoding process was killed, probably out of memory. Run the command "
                "again with fewer --num_workers; frames cached so far are reused"
            ) from None


_OWN_CAMERAS: list[CachedCamera] = []  # The cameras of a worker process


def _take_cameras(cameras: list[CachedCamera]) -> None:
    _OWN_CAMERAS[:] = cameras


def _fill_own(clip: Clip) -> Filled:
    return _fill_clip(_OWN_CAMERAS, clip)


def _fill_clip(cameras: list[CachedCamera], clip: Clip) -> Filled:
    place, first, end = clip
    camera, num_decoded = cameras[place], 0
    try:
        for _ in camera.pictures(camera.cacheable(camera.missing(np.arange(first, end)))):
            num_decoded += 1
    except DatasetError as error:
        return clip, num_decoded, str(error)
    return clip, num_decoded, camera.fault


def build_cache(
    source: Source,
    reading: ReadOptions,
    options: CacheOptions,
    num_workers: int,
    on_progress: Progress,
) -> tuple[FillSummary, str]:
    """Cache all frames that fit; return a summary and the reason of the plan."""
    planned = plan_frame_caches([(source, reading)], options)
    (cache,) = planned.caches
    if cache is None:
        raise UserError(f"nothing to build. Frame cache: {planned.reason}")
    for key, pictures in cameras_of(source, reading).items():
        cache.column(key, pictures, drops_single_axis=False)
    return fill(planned, num_workers, on_progress), planned.reason
