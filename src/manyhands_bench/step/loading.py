"""Steps with the real loader, its processes, and copies to the device."""

import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import cast

from manyhands.cores import num_cores
from manyhands.data.cache.fill import fill
from manyhands.data.loading.stream import resolve_num_workers
from manyhands.observe.console import progress_bar
from manyhands.parallel.world import World
from manyhands.training.setup.data import TrainingData, data_ram_limit
from manyhands.training.step.learner import Learner
from manyhands.types import Batch
from manyhands_bench.config import BenchStepConfig
from manyhands_bench.step.phases import wait_for
from manyhands_bench.step.subject import Subject, stream_of


@dataclass(frozen=True)
class Loaded:
    """The speed of training with the loader."""

    samples_per_s: float
    share: float
    """Fraction of the speed of steps with a batch on the device."""
    num_workers: int


def fill_caches(data: TrainingData) -> None:
    """Fill the frame cache, as an epoch of training does; tokens are already cached."""
    if data.tokens is None and any(data.caches.caches):
        with progress_bar("decoding frames") as on_progress:
            fill(data.caches, num_cores(), on_progress)


def with_loader(
    learner: Learner, pure_rate: float, subject: Subject, bench: BenchStepConfig, world: World
) -> Loaded:
    """Train from the loader of a run, and compare with the rate of steps alone."""
    assert subject.data is not None
    subject.data.kept.read_ahead(data_ram_limit(subject.config))
    stream = stream_of(subject.data, subject.config, world, subject.split)
    num_workers = resolve_num_workers(stream.loading)
    # Batches prefetched before the measurement must not count.
    warm_up = max(bench.warm_up, num_workers * stream.loading.prefetch_factor + 1)
    with closing(cast(Generator[Batch], stream.starting_at(0))) as batches:
        for step in range(warm_up):
            learner.train_step(next(batches), step)
        wait_for(world.device)
        started = time.perf_counter()
        for step in range(warm_up, warm_up + bench.num_steps):
            learner.train_step(next(batches), step)
        wait_for(world.device)
        seconds = time.perf_counter() - started
    rate = bench.num_steps * subject.split.samples_per_step / seconds
    return Loaded(rate, rate / pure_rate, num_workers)
