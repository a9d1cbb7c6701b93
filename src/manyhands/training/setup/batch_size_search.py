"""Batch size search: halves the micro-batch until it fits.

Every trial uses a temporary learner, so that the run itself is not affected. Ranks try without
communication, so that a failing rank does not block the others.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from manyhands.data.loading.stream import Share
from manyhands.errors import UserError
from manyhands.parallel.collectives import apart
from manyhands.parallel.world import World
from manyhands.training.health.out_of_memory import is_out_of_memory, shortage
from manyhands.training.step.learner import Learner
from manyhands.types import Batch

NUM_TRIED = 2
"""Steps of a trial: optimizer state is allocated from the second one on."""

MakeLearner = Callable[[Share], Learner]


def fitting_share(
    share: Share, make_learner: MakeLearner, batches: Iterator[Batch], world: World
) -> tuple[Share, list[str]]:
    """Collective. Split the local batch into micro-batches that fit; return it with notes to log.

    The effective batch stays the same; each trial halves the micro-batch.
    """
    batch, failed = next(batches), list[str]()
    while world.any(not fits(make_learner, share, batch, world)):
        failed.append(str(share.most_per_part))
        share = halved(share, world)
    told = f" ({', '.join(failed)} did not)" if failed else ""
    return share, [f"Batch size search: micro-batches of {share.most_per_part} samples fit{told}"]


def halved(share: Share, world: World) -> Share:
    """The same local batch with half the micro-batch; no rank is left without samples."""
    if share.num_parts == share.least_per_rank:
        raise UserError(shortage(share, world, "--find_batch_size found no batch size that fits"))
    size = -(-share.most_per_part // 2)
    num_parts = min(-(-share.most_per_rank // size), share.least_per_rank)
    return replace(share, num_parts=num_parts)


def fits(make_learner: MakeLearner, share: Share, batch: Batch, world: World) -> bool:
    """Whether steps fit into the memory of this rank."""
    with apart():
        outcome = _tried(make_learner(share), batch)
    world.let_go()
    return outcome


def _tried(learner: Learner, batch: Batch) -> bool:
    try:
        for step in range(NUM_TRIED):
            learner.update(batch, step)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return False
    return True
