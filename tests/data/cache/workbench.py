"""Pictures whose pixels follow from the frame number, and processes to read and write them."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from manyhands.data.cache.camera import CachedCamera
from manyhands.data.cache.store import FrameStore
from manyhands.data.cache.store_files import StoreSpec

EVERYTHING = 1 << 50
DEADLINE_S = 100
UINT8 = np.dtype(np.uint8)


def pixels_of(frame: int, shape: tuple[int, ...], dtype: np.dtype = UINT8) -> np.ndarray:
    """The picture of a frame; no part of it is equal to the same part of a neighbor."""
    ramp = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    return ((ramp // 5 + 37 * frame) % 251).astype(dtype)


class NumberedPictures:
    """A camera that makes its pictures up, and counts them."""

    def __init__(self, shape: tuple[int, ...] = (3, 8, 8), dtype: np.dtype = UINT8) -> None:
        self.shape = shape
        self.dtype = dtype
        self.num_decoded = 0

    def pictures(self, frames: np.ndarray) -> Iterator[np.ndarray]:
        assert (np.diff(frames) > 0).all()
        for frame in frames.tolist():
            self.num_decoded += 1
            yield pixels_of(frame, self.shape, self.dtype)

    def expected(self, frames: np.ndarray) -> np.ndarray:
        flat = [pixels_of(frame, self.shape, self.dtype) for frame in frames.reshape(-1).tolist()]
        return np.stack(flat).reshape(*frames.shape, *self.shape)


def spec_of(source: NumberedPictures, num_frames: int = 50, **changes: Any) -> StoreSpec:
    described = {"dataset": "numbers", "camera": "top"}
    facts = {"key": "k", "description": described, **changes}
    return StoreSpec(shape=source.shape, dtype=source.dtype, num_frames=num_frames, **facts)


def open_camera(
    home: Path, source: NumberedPictures, num_frames: int = 50, **changes: Any
) -> CachedCamera:
    max_bytes = changes.pop("max_bytes", EVERYTHING)
    return CachedCamera(source, FrameStore(home, spec_of(source, num_frames, **changes), max_bytes))


def read(camera: CachedCamera, frames: np.ndarray) -> np.ndarray:
    out = np.full((*frames.shape, *camera.shape), 77, camera.dtype)
    camera.read_into(frames, out)
    return out


def store_of(camera: CachedCamera) -> FrameStore:
    return camera._store


def num_wrong(store: FrameStore, source: NumberedPictures) -> tuple[int, int]:
    """How many frames the store has, and how many of them are not what they must be."""
    frames = np.arange(store.spec.num_frames)
    out = np.zeros((len(frames), *store.spec.shape), store.spec.dtype)
    present = store.gather(frames, out)
    wrong = sum(
        not np.array_equal(out[frame], store.decode(store.encode(pixels_of(frame, source.shape))))
        for frame in np.flatnonzero(present)
    )
    return int(present.sum()), wrong


def read_all_shuffled(camera: CachedCamera, num_frames: int, seed: int) -> int:
    """Read every frame in batches of a random order; returns how many were decoded here."""
    source = camera._source
    for batch in np.array_split(np.random.default_rng(seed).permutation(num_frames), 20):
        assert np.array_equal(read(camera, batch), source.expected(batch))
    return source.num_decoded


def _report(connection: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    connection.send((function(*arguments), os.getpid()))


def run_in_processes(method: str, function: Callable[..., Any], jobs: list[tuple]) -> list[Any]:
    """Run a job in a process each, all at once; returns what each of them returned."""
    context = multiprocessing.get_context(method)
    pipes = [context.Pipe(duplex=False) for _ in jobs]
    processes = [
        context.Process(target=_report, args=(sending, function, job))
        for (_, sending), job in zip(pipes, jobs, strict=True)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(DEADLINE_S)
    assert [process.exitcode for process in processes] == [0] * len(jobs)
    answers = [receiving.recv() for receiving, _ in pipes]
    assert os.getpid() not in [process_id for _, process_id in answers]
    return [answer for answer, _ in answers]
