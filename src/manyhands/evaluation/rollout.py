"""Runs episodes side by side: environments act while the policy predicts for others."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from manyhands.errors import UserError
from manyhands.evaluation.actor import Actor, ChunkRequest
from manyhands.evaluation.film_recorder import Film, FilmRecorder
from manyhands.evaluation.predictions import Predictions
from manyhands.evaluation.rollout_control import RolloutControl
from manyhands.policies.acting import ActionPlan, action_plan
from manyhands.policies.policy import Policy
from manyhands.sim.episode import Act, Begin, Segment
from manyhands.sim.slot import POLL_S, Failure, Slot, finished_slots

PREDICTION_POLL_S = 0.005
"""Time between two looks for a prediction while environments act."""

OnSteps = Callable[[int], object]  # Called with the number of steps that an environment has made.


@dataclass(frozen=True)
class EpisodeTask:
    """An episode to run."""

    index: int
    seed: int
    recorder: FilmRecorder | None = None
    """Films it."""


@dataclass(frozen=True)
class EpisodeResult:
    """How one episode went."""

    index: int
    seed: int
    success: bool
    sum_reward: float
    max_reward: float
    length: int
    error: str | None = None
    """Why its environment crashed or did not answer."""
    film: Film | None = field(default=None, repr=False, compare=False)


@dataclass
class _Running:
    task: EpisodeTask
    group: int
    """Which of the batches that take turns."""
    row: int
    slot: Slot
    plan: ActionPlan
    segment: Segment | None = None
    """The latest one, once it is there."""
    success: bool = False
    rewards: list[float] = field(default_factory=list)
    film: Film | None = None

    def request(self) -> ChunkRequest:
        """Its need for actions."""
        assert self.segment is not None
        return ChunkRequest(self.task.index, len(self.rewards), self.segment.observation)

    def result(self, error: str | None = None) -> EpisodeResult:
        """How it went."""
        return EpisodeResult(
            index=self.task.index,
            seed=self.task.seed,
            success=self.success,
            sum_reward=sum(self.rewards),
            max_reward=max(self.rewards, default=0.0),
            length=len(self.rewards),
            error=error,
            film=self.film,
        )


class Rollout:
    """Episodes of a policy in as many environments as there are slots."""

    def __init__(
        self,
        policy: Policy,
        actor: Actor,
        slots: Sequence[Slot],
        max_steps: int,
        control: RolloutControl,
    ) -> None:
        self._policy = policy
        self._control = control
        self._actor = actor
        self._free = list(slots)
        self._max_steps = max_steps
        self._running: list[_Running] = []
        self._has_ended_one = False
        """Whether an episode ran to its end: then a usage error of another one is its own."""
        self._requesters: dict[int, list[_Running]] = {}
        """The episodes that the prediction for each group is made for."""

    def results(self, tasks: Sequence[EpisodeTask], on_steps: OnSteps) -> Iterator[EpisodeResult]:
        """Run every episode once; results come as episodes end. A stop leaves the others out."""
        waiting = list(tasks)
        with closing(Predictions(self._actor, self._max_steps, self._control)) as predictions:
            while (waiting or self._running) and not self._control.must_stop():
                self._begin(waiting)
                self._request_chunks(predictions)
                self._execute_chunks(predictions)
                yield from self._progress(predictions, on_steps)

    def _begin(self, waiting: list[EpisodeTask]) -> None:
        """Begin episodes in free slots, each in the first group whose batch has its row free."""
        if not self._free or not waiting:
            return
        taken = {(each.group, each.row) for each in self._running}
        for task in [*waiting]:
            row = self._actor.row_of(task.index)
            groups = [g for g in range(self._actor.num_groups) if (g, row) not in taken]
            if not self._free or not groups:
                continue
            slot = self._free.pop()
            slot.send(Begin(task.seed, task.recorder))
            plan = action_plan(self._policy.config)
            self._running.append(_Running(task, groups[0], row, slot, plan))
            waiting.remove(task)
            taken.add((groups[0], row))

    def _request_chunks(self, predictions: Predictions) -> None:
        """Request actions for groups whose episodes all need them, so that they share a batch."""
        for number in sorted({*range(self._actor.num_groups)} - predictions.groups):
            group = [each for each in self._running if each.group == number]
            if group and all(each.segment is not None for each in group):
                predictions.request(number, [each.request() for each in group])
                self._requesters[number] = group

    def _execute_chunks(self, predictions: Predictions) -> None:
        for number, chunks in predictions.take():
            for episode, chunk in zip(self._requesters.pop(number), chunks, strict=True):
                episode.segment = None
                actions = episode.plan.actions_before_next(chunk)
                episode.slot.send(Act(actions[0].numpy()))

    def _progress(self, predictions: Predictions, on_steps: OnSteps) -> Iterator[EpisodeResult]:
        """Wait for environments or a prediction; yield the episodes that have ended."""
        acting = {each.slot: each for each in self._running if each.segment is None}
        if not acting:
            predictions.wait(POLL_S)
            return
        for slot in finished_slots([*acting], PREDICTION_POLL_S if predictions.groups else POLL_S):
            yield from self._take_result(acting[slot], on_steps)

    def _take_result(self, episode: _Running, on_steps: OnSteps) -> Iterator[EpisodeResult]:
        """Take the result of a slot, if there is one; yield the episode if it has ended."""
        found = episode.slot.result()
        if found is None:
            return
        if isinstance(found, Failure):
            if found.fault is not None and not self._has_ended_one:
                raise found.fault
            yield self._end(episode, found.reason)
            return
        on_steps(len(found.rewards))
        episode.rewards += found.rewards
        episode.film = found.film
        episode.success |= found.success
        if found.ended:
            yield self._end(episode)
        else:
            episode.segment = found

    def _end(self, episode: _Running, error: str | None = None) -> EpisodeResult:
        self._running.remove(episode)
        self._has_ended_one |= error is None
        self._free.append(episode.slot)
        return episode.result(error)


def refuse_broken(results: Sequence[EpisodeResult], at_least: int = 1) -> None:
    """Raise if at least so many episodes crashed, and none did not."""
    errors = [result.error for result in results]
    if len(errors) >= at_least and all(errors):
        raise UserError(f"no episode could be run: {errors[0]}")
