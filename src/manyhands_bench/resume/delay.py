"""Measures how long asynchronous and synchronous saves block training."""

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import cast

import torch

from manyhands.checkpoint.snapshot import Position
from manyhands.checkpoint.store import CheckpointStore
from manyhands.checkpoint.writer import tensor_files_bytes
from manyhands.config.resolve import read_train_config
from manyhands.config.train import TrainConfig
from manyhands.cores import num_cores
from manyhands.data.loading.stream import SampleStream
from manyhands.parallel.world import World, joined_world
from manyhands.training.setup.assemble import build_learner
from manyhands.training.setup.batch import resolve_steps, split_batch
from manyhands.training.setup.data import loader_options, open_training_data
from manyhands.training.step.learner import Learner
from manyhands.types import Batch

POLICY = (
    "--policy.type=act",
    "--policy.dim_feedforward=3400",
    "--policy.chunk_size=8",
    "--policy.n_action_steps=8",
    "--batch_size=1",
    "--num_workers=0",
    "--keep_last=1",
)
"""A policy of 500 MB with its optimizer state, and with fast steps."""
WARM_UP = 3
MIN_UPDATES = 5
MARGIN = 2.0
"""Steps are timed for this multiple of the time of a save."""


@dataclass(frozen=True)
class Delay:
    """Medians over several saves."""

    state_bytes: int
    update_s: float
    sync_s: float
    """Time that training loses to a synchronous save."""
    async_s: float
    """Time that training loses to an asynchronous save."""

    @property
    def async_over_sync(self) -> float:
        """Fraction of a save that still blocks training."""
        return self.async_s / self.sync_s


def measure_delay(folder: Path, num_saves: int) -> Delay:
    """Time steps of a policy of 500 MB with and without saves of each kind."""
    flags = (f"--dataset.root={folder / 'dataset'}", f"--output_dir={folder / 'delay'}")
    return delay_of(read_train_config([*POLICY, *flags]), num_saves)


def delay_of(config: TrainConfig, num_saves: int) -> Delay:
    """Time steps of a run with and without saves of each kind, one after the other."""
    assert config.output_dir is not None
    with one_core_left(), joined_world(config) as world, subject(config, world) as training:
        training.seconds(WARM_UP)
        save_s = training.seconds(0, training.save_and_wait)
        update_s = training.seconds(MIN_UPDATES) / MIN_UPDATES
        number = max(MIN_UPDATES, math.ceil(MARGIN * save_s / update_s))
        plain, waiting, behind = [], [], []
        for _ in range(num_saves):
            plain.append(training.seconds(number))
            waiting.append(training.seconds(number, training.save_and_wait))
            behind.append(training.seconds(number, training.save))
        return Delay(
            state_bytes=training.state_bytes(),
            update_s=median(plain) / number,
            sync_s=median(waiting) - median(plain),
            async_s=median(behind) - median(plain),
        )


class Subject:
    """A learner and its checkpoint store."""

    def __init__(self, learner: Learner, batch: Batch, checkpoints: CheckpointStore) -> None:
        self._learner = learner
        self._batch = batch
        self._checkpoints = checkpoints
        self._position = Position()

    def state_bytes(self) -> int:
        """The size of a checkpoint."""
        return tensor_files_bytes(self._learner.snapshot(self._position), num_shards=1, block=1)

    def seconds(self, num_updates: int, save: Callable[[], None] | None = None) -> float:
        """The time of steps, with a save before them."""
        self._wait_for_device()
        started = time.perf_counter()
        if save is not None:
            save()
        for _ in range(num_updates):
            self._learner.train_step(self._batch, self._position.step)
            self._position = self._position.after(1)
        self._wait_for_device()
        seconds = time.perf_counter() - started
        self._checkpoints.finish()
        return seconds

    def _wait_for_device(self) -> None:
        if self._learner.policy.device.type == "cuda":
            torch.cuda.synchronize()

    def save(self) -> None:
        """Start an asynchronous save."""
        self._checkpoints.save(self._position, self._learner)

    def save_and_wait(self) -> None:
        """Save synchronously."""
        self.save()
        self._checkpoints.finish()


@contextmanager
def subject(config: TrainConfig, world: World) -> Iterator[Subject]:
    """The learner and checkpoint store of a run, without its loop."""
    data, config = open_training_data(config, world.on_main)
    share = split_batch(config, world.rank, world.size)
    config = resolve_steps(config, Position(), data.order.num_samples, share.samples_per_step)
    learner, _ = build_learner(config, data.stats, world, share)
    loading = loader_options(config, world.num_local_ranks, world.device.type == "cuda")
    stream = SampleStream(data.source, data.order, share, loading, world.device)
    assert config.output_dir is not None
    with closing(cast(Generator[Batch], stream.starting_at(0))) as batches:
        yield Subject(learner, next(batches), CheckpointStore(config.output_dir, config, world))


@contextmanager
def one_core_left() -> Iterator[None]:
    """Leave one core to the save, as in training on a GPU."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, num_cores() - 1))
    try:
        yield
    finally:
        torch.set_num_threads(before)
