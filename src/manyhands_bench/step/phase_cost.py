"""What it costs to time the phases of steps."""

from collections.abc import Callable
from statistics import median

from manyhands.observe.phases import NoPhases
from manyhands.parallel.world import World
from manyhands.training.setup.assemble import build_learner
from manyhands_bench.config import BenchStepConfig
from manyhands_bench.step.subject import Subject
from manyhands_bench.timing import step_times

NUM_TURNS = 6


def phase_cost(subject: Subject, bench: BenchStepConfig, world: World) -> float:
    """The fraction of a step that timing its phases takes.

    Steps with and without take turns, so that the clock of a GPU affects both alike.
    """
    timed, untimed = (update_of(subject, world, is_timed) for is_timed in (True, False))
    seconds: dict[bool, list[float]] = {True: [], False: []}
    first = 0
    for turn in range(1 + NUM_TURNS):
        steps = range(first, first := first + max(bench.warm_up, bench.num_steps))
        # Each is the first of a turn as often as the other.
        for is_timed in (True, False) if turn % 2 else (False, True):
            times = step_times(timed if is_timed else untimed, steps, world.device)
            # The first turn includes the capture of a graph.
            seconds[is_timed] += times if turn else []
    return median(seconds[True]) / median(seconds[False]) - 1


def update_of(subject: Subject, world: World, is_timed: bool) -> Callable[[int], None]:
    """A step of a run of its own."""
    learner, _ = build_learner(subject.config, subject.stats, world, subject.split)
    if not is_timed:
        learner.step.phases = NoPhases()

    def update(step: int) -> None:
        learner.train_step(subject.batch, step)

    return update
