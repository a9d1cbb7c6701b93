"""Batch size search: halves the micro-batch until it fits.

Every trial uses a temporary learner, so that the run itself is not affected. Ranks try without
communication, so that a failing rank does not block the others.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from manyhands.data.loading.stream import BatchSplit
from manyhands.errors import UserError
from manyhands.parallel.collectives import without_communication
from manyhands.parallel.world import World
from manyhands.training.health.out_of_memory import is_out_of_memory, oom_message
from manyhands.training.step.learner import Learner
from manyhands.types import Batch

NUM_TRIED = 2  # Steps of a trial: optimizer state is allocated from the second one on.

MakeLearner = Callable[[BatchSplit], Learner]


def find_batch_size(
    split: BatchSplit, make_learner: MakeLearner, batches: Iterator[Batch], world: World
) -> tuple[BatchSplit, list[str]]:
    """Collective. Split the local batch into micro-batches that fit; return it with notes to log.

    The effective batch stays the same; each trial halves the micro-batch.
    """
    batch, failed = next(batches), list[str]()
    while world.any(not step_fits(make_learner, split, batch, world)):
        failed.append(str(split.micro_batch_size))
        split = halved(split, world)
    too_large = f" ({', '.join(failed)} did not)" if failed else ""
    return split, [
        f"Batch size search: micro-batches of {split.micro_batch_size} samples fit{too_large}"
    ]


def halved(split: BatchSplit, world: World) -> BatchSplit:
    """The same local batch with half the micro-batch; no rank is left without samples."""
    if split.num_micro_batches == split.least_per_rank:
        raise UserError(
            oom_message(split, world, "--find_batch_size found no batch size that fits")
        )
    size = -(-split.micro_batch_size // 2)
    num_micro_batches = min(-(-split.most_per_rank // size), split.least_per_rank)
    return replace(split, num_micro_batches=num_micro_batches)


def step_fits(make_learner: MakeLearner, split: BatchSplit, batch: Batch, world: World) -> bool:
    """Whether steps fit into the memory of this rank."""
    with without_communication():
        outcome = _try_steps(make_learner(split), batch)
    world.free_memory()
    return outcome


def _try_steps(learner: Learner, batch: Batch) -> bool:
    try:
        for step in range(NUM_TRIED):
            learner.train_step(batch, step)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return False
    return True
