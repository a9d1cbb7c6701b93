"""The engine of `manyhands train` for a model, optimizer and dataset of one's own.

The same program runs in a single process, under DP, DDP and FSDP2, and under every launcher. It
sees the same samples in the same order on any number of processes, and continues after a stop as
if there had been none.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import Dataset

from manyhands.checkpoint.snapshot import Position
from manyhands.checkpoint.store import CheckpointStore, ResumePoint, read_position
from manyhands.config.engine import read_engine_config
from manyhands.config.runs.run_dir import newest_intact
from manyhands.engine.evaluation import evaluate
from manyhands.engine.learner import OwnLearner, Schedule, StepResult
from manyhands.engine.own_model import Function
from manyhands.engine.samples import Collate, EpochSampler, Loading, LocalBatch, build_order
from manyhands.engine.session import joined_session
from manyhands.errors import HelpShown, Stopped, UserError
from manyhands.parallel.engine import build_engine
from manyhands.parallel.nested import to_device
from manyhands.parallel.world import World, resolve_accumulation
from manyhands.rng import derive_seed
from manyhands.training.periods import StopPoll
from manyhands.training.step.learner import seed_host_rng

Epoch = tuple[int, Iterator[LocalBatch]]
"""The number of an epoch, and the batches that are left of it."""


class Engine:
    """Runs a training program on all its processes, within a `with` block.

    All processes call the methods marked collective, in the same order.
    """

    def __init__(self, flags: Sequence[str] = ()) -> None:
        """Flags are those of `manyhands train` that concern the engine; --help lists them."""
        try:
            self.config = read_engine_config(flags)
        except HelpShown as shown:
            raise SystemExit(shown.exit_code) from None
        self.position = Position()
        """Finished steps, and samples drawn so far."""
        self._run = self.config.run
        self._leaving = ExitStack()
        self._world: World | None = None
        self._learner: OwnLearner | None = None
        self._checkpoints: CheckpointStore | None = None
        self._stop_poll: StopPoll | None = None
        self._saved = self.position

    def __enter__(self) -> Self:
        self._world = self._leaving.enter_context(joined_session(self.config))
        # A model that is built from here on starts from the same weights on all ranks.
        seed = derive_seed(self.config.seed, "weights")
        torch.manual_seed(seed)
        seed_host_rng(seed)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return self._leaving.__exit__(kind, error, trace)

    @property
    def world(self) -> World:
        """The ranks of this run: `rank`, `size`, `is_main`, `device`, `gather`, `barrier`."""
        if self._world is None:
            raise UserError("the engine has no processes yet. Use it in a block: with Engine()")
        return self._world

    def prepare(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        losses: Function,
        schedule: Schedule | None = None,
    ) -> None:
        """Collective. Put the model on the devices of all ranks, and restore a stopped run.

        `losses(model, values)` returns the loss of every sample of a batch.
        """
        num_micro_batches = resolve_accumulation(self._run)
        engine = build_engine(self.world, num_micro_batches, self.config.accelerator.ddp)
        self._learner = OwnLearner(model, optimizer, losses, engine, self.world)
        self._learner.schedule = schedule
        if self.config.output_dir is not None:
            self._checkpoints = CheckpointStore(self.config.output_dir, self._run, self.world)
            self._leaving.enter_context(self._checkpoints.waiting_for_saves())
            self._resume(self._checkpoints)

    def epochs(
        self,
        dataset: Dataset[Any],
        num_epochs: int,
        global_batch_size: int,
        num_workers: int = 0,
        collate: Collate | None = None,
    ) -> Iterator[Epoch]:
        """Collective. The epochs that are left of a run, each with its batches.

        Every sample is drawn once per epoch, whatever the number of processes; a global batch has
        the same samples on any number. `num_workers` loader processes per rank read ahead.
        """
        order = build_order(dataset, self.config.seed)
        world, num_micro_batches = self.world, resolve_accumulation(self._run)
        sampler = EpochSampler(order, global_batch_size, world.rank, world.size, num_micro_batches)
        loading = Loading(num_workers, collate, world.device.type == "cuda")
        world.defer_stops()
        self._stop_poll = StopPoll(world)
        while self.position.samples < num_epochs * order.num_samples:
            epoch = self.position.samples // order.num_samples
            yield epoch, self._batches(dataset, sampler, loading)

    def _batches(
        self, dataset: Dataset[Any], sampler: EpochSampler, loading: Loading
    ) -> Iterator[LocalBatch]:
        positions = sampler.global_batches(self.position.samples)
        draws = [sampler.draws(each) for each in positions]
        self._finish_step()
        read = loading.batches(dataset, draws, self.config.seed)
        for number, (batch, values) in enumerate(zip(positions, read, strict=True)):
            if number > 0:
                self._finish_step()
            weights = sampler.weights(batch)
            values, weights = to_device((values, weights), self.world.device)
            yield LocalBatch(values, weights, len(batch))

    def step(self, batch: LocalBatch, max_grad_norm: float = 0.0) -> StepResult:
        """Collective. Train on a batch: the gradient of the mean loss over the global batch.

        `max_grad_norm` clips gradients; zero does not.
        """
        self.world.watch.begin("step")
        self._prepared.seed(self.config.seed, self.position.step)
        result = self._prepared.step(batch, max_grad_norm)
        self.position = self.position.after(batch.num_samples)
        return result

    def evaluate(
        self,
        function: Function,
        dataset: Dataset[Any],
        batch_size: int = 256,
        num_workers: int = 0,
        collate: Collate | None = None,
    ) -> Tensor:
        """Collective. `function(model, values)` of all samples, in their order, on every rank.

        The function returns a row per sample. Every sample is counted once, and results are the
        same on any number of processes. Training is not affected.
        """
        loading = Loading(num_workers, collate)
        return evaluate(self._prepared, function, dataset, batch_size, (self.world, loading))

    def save(self) -> None:
        """Collective. Start to write a checkpoint of the current position.

        A program that steps a schedule saves after that.
        """
        if self._checkpoints is None:
            raise UserError("there is no folder for checkpoints. Set --output_dir")
        self._checkpoints.save(self.position, self._prepared)
        self._saved = self.position
        self._log_messages()

    def print(self, *values: object) -> None:
        """Print on the main rank only."""
        if self.world.is_main:
            print(*values, flush=True)

    @property
    def _prepared(self) -> OwnLearner:
        if self._learner is None:
            raise UserError("the engine has no model yet. Call prepare() first")
        return self._learner

    def _resume(self, checkpoints: CheckpointStore) -> None:
        run_dir = self.config.output_dir
        assert run_dir is not None
        folder = self.world.on_main(lambda: newest_intact(run_dir))
        if folder is None:
            return
        folder = folder.resolve()
        notes = checkpoints.restore(self._prepared, ResumePoint(folder, {}, None))
        self._prepared.load_schedule(folder)
        self.position = self._saved = read_position(folder)
        self.print("\n".join([*notes, f"resuming from step {self.position.step} of {folder}"]))

    def _finish_step(self) -> None:
        """Collective. Save if it is time to, and leave if a stop was requested.

        Called when the next batch is wanted: the program has done all that follows a step.
        """
        assert self._stop_poll is not None
        self.world.watch.begin("data")
        frequency, step = self.config.save_freq, self.position.step
        is_time = frequency > 0 and step % frequency == 0
        is_stopping = self._stop_poll.after_step()
        can_save = self._checkpoints is not None and self.position != self._saved
        if can_save and (is_time or is_stopping):
            self.save()
        if is_stopping:
            self._leave(step)

    def _leave(self, step: int) -> None:
        how = ""
        if self._checkpoints is not None:
            self._checkpoints.ensure_saved()
            how = "; run the same command again to continue"
        self.print(f"stopped on request after step {step}{how}")
        raise Stopped

    def _log_messages(self) -> None:
        assert self._checkpoints is not None
        for message in self._checkpoints.messages():
            self.print(message)
