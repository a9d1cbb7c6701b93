"""Samples per second of the loader: from video, from the cache, and of LeRobot's loader."""

import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import cast

import psutil

from manyhands.config.sections.cache import FLAG
from manyhands.config.train import TrainConfig
from manyhands.cores import num_cores
from manyhands.data.cache.fill import Progress, fill
from manyhands.data.dataset import Dataset
from manyhands.data.loading.stream import BatchSplit, SampleStream, resolve_num_workers
from manyhands.data.policy_reading import windows_of
from manyhands.errors import ConfigError, UserError
from manyhands.training.setup.data import (
    TrainingData,
    alone,
    data_ram_limit,
    loader_options,
    open_training_data,
)
from manyhands.types import Batch
from manyhands_bench.config import BenchLoaderConfig
from manyhands_bench.loader.reference import ReferenceRequest, measure_reference


def resident_bytes() -> int:
    """Memory of this process and its children; shared memory counts once per process."""
    process = psutil.Process()
    total = 0
    for each in (process, *process.children(recursive=True)):
        try:
            total += int(each.memory_info().rss)
        except psutil.NoSuchProcess:
            continue
    return total


WARM_UP = 0.25
"""Warm-up time as a fraction of the measurement."""
MIB = 1024**2


@dataclass(frozen=True, kw_only=True)
class LoaderResult:
    """The measurements; None where not measured."""

    decode_samples_per_s: float
    cache_samples_per_s: float | None
    reference_samples_per_s: float | None
    cache_reason: str
    cache_build_s: float | None
    num_workers: int
    batch_size: int
    resident_mib: list[float]
    """Memory of all processes after each epoch."""

    @property
    def speedups(self) -> dict[str, float]:
        """Speed-up of each loader over LeRobot's."""
        if self.reference_samples_per_s is None:
            return {}
        ways = {"decode": self.decode_samples_per_s, "cache": self.cache_samples_per_s}
        return {way: rate / self.reference_samples_per_s for way, rate in ways.items() if rate}


def bench_loader(
    bench: BenchLoaderConfig, config: TrainConfig, on_progress: Progress
) -> LoaderResult:
    """Measure all loaders one after the other."""
    if config.cache.vision_tokens:
        raise ConfigError([f"bench loader does not support {FLAG}. Use bench step --with_loader"])
    decoding, _ = open_training_data(config.without_cache(), alone)
    decode_rate = samples_per_s(decoding, config, bench.seconds)
    cached, config = open_training_data(config, alone)
    build_s = cache_rate = None
    if any(cached.caches.caches):
        started = time.perf_counter()
        fill(cached.caches, num_cores(), on_progress)
        build_s = time.perf_counter() - started
        cached.caches.read_ahead(data_ram_limit(config))
        cache_rate = samples_per_s(cached, config, bench.seconds)
    resident = memory_by_epoch(cached, config, bench.epochs)
    reference = None
    if bench.against is not None:
        reference = measure_reference(bench.against, request_of(bench, config, decoding))
    return LoaderResult(
        decode_samples_per_s=decode_rate,
        cache_samples_per_s=cache_rate,
        reference_samples_per_s=reference,
        cache_reason=cached.caches.reason,
        cache_build_s=build_s,
        num_workers=resolve_num_workers(loader_options(config)),
        batch_size=batch_size_of(config),
        resident_mib=resident,
    )


def samples_per_s(data: TrainingData, config: TrainConfig, seconds: float) -> float:
    """Samples per second after the warm-up."""
    with batches_of(data, config) as batches:
        warm = time.perf_counter() + WARM_UP * seconds
        while time.perf_counter() < warm:
            next(batches)
        started, num_batches = time.perf_counter(), 0
        while time.perf_counter() - started < seconds:
            next(batches)
            num_batches += 1
        return num_batches * batch_size_of(config) / (time.perf_counter() - started)


def memory_by_epoch(data: TrainingData, config: TrainConfig, num_epochs: int) -> list[float]:
    """Memory of this process and its loader processes after each of some epochs, in MiB."""
    if num_epochs == 0:
        return []
    num_batches = -(-data.order.num_samples // batch_size_of(config))
    resident = []
    with batches_of(data, config) as batches:
        for _ in range(num_epochs):
            for _ in range(num_batches):
                next(batches)
            resident.append(resident_bytes() / MIB)
    return resident


def batch_size_of(config: TrainConfig) -> int:
    """The batch size of a single rank."""
    size = config.global_batch_size or config.batch_size
    assert size is not None
    return size


@contextmanager
def batches_of(data: TrainingData, config: TrainConfig) -> Iterator[Iterator[Batch]]:
    """Batches as a single rank of a training run reads them."""
    split = BatchSplit(rank=0, num_ranks=1, samples_per_step=batch_size_of(config))
    stream = SampleStream(data.source, data.order, split, loader_options(config))
    with closing(cast(Generator[Batch], stream.starting_at(0))) as batches:
        yield batches


def request_of(
    bench: BenchLoaderConfig, config: TrainConfig, data: TrainingData
) -> ReferenceRequest:
    """The request for the same samples from LeRobot."""
    assert config.policy is not None
    if not isinstance(data.source, Dataset) or data.source.info.major_version != 3:
        raise UserError("--against needs a single dataset of format v3.0, as LeRobot does")
    fps, own_names = data.source.fps, {new: old for old, new in config.rename_map.items()}
    return ReferenceRequest(
        repo_id=config.dataset.repo_id or "local/dataset",
        root=str(data.source.root),
        delta_timestamps={
            own_names.get(key, key): [offset / fps for offset in offsets]
            for key, offsets in windows_of(config.policy).items()
        },
        episodes=data.source.episodes.tolist(),
        batch_size=batch_size_of(config),
        num_workers=resolve_num_workers(loader_options(config)),
        seconds=bench.seconds,
        warm_up_s=WARM_UP * bench.seconds,
    )
