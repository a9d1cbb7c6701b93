"""Evaluates a policy in simulation: the same numbers on any number of ranks and environments."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from manyhands.config.sections.env import EnvConfig
from manyhands.config.sections.eval import EvalConfig
from manyhands.evaluation.actor import Actor
from manyhands.evaluation.rollout import EpisodeResult, EpisodeTask, Rollout, refuse_broken
from manyhands.policies.policy import Policy
from manyhands.sim.build import build_environment
from manyhands.sim.episode import EpisodeSetup
from manyhands.sim.slot import LocalSlot, ProcessSlot, Slot

OnResult = Callable[[EpisodeResult], None]


class Evaluator:
    """Runs episodes of a policy in an environment."""

    def __init__(self, policy: Policy, env: EnvConfig, config: EvalConfig, seed: int) -> None:
        self._policy = policy
        self._env = env
        self._config = config
        self._seed = seed
        inputs = {name: item.shape for name, item in policy.config.input_features.items()}
        offsets = policy.config.observation_offsets
        self._setup = EpisodeSetup(env, inputs, 1 if offsets is None else len(offsets))
        # What cannot work is reported before any process is started.
        self._actor = Actor(policy, seed, build_environment(env, inputs).instruction)

    def tasks(self, rank: int, num_ranks: int) -> list[EpisodeTask]:
        """The episodes of a rank: a contiguous slice of all."""
        total = self._config.n_episodes
        first, end = (total * each // num_ranks for each in (rank, rank + 1))
        return [EpisodeTask(index, self._seed + index) for index in range(first, end)]

    def results(
        self, tasks: Sequence[EpisodeTask], on_result: OnResult = lambda _: None
    ) -> list[EpisodeResult]:
        """Run episodes; results are in the order of the tasks."""
        found: list[EpisodeResult] = []
        if not tasks:
            return found
        with self._slots(len(tasks)) as slots:
            rollout = Rollout(self._policy, self._actor, slots, self._env.episode_length)
            for result in rollout.results(tasks):
                found.append(result)
                refuse_broken(found, len(slots))
                on_result(result)
        return sorted(found, key=lambda result: result.index)

    @contextmanager
    def _slots(self, num_tasks: int) -> Iterator[list[Slot]]:
        asked = self._config.batch_size or self._actor.num_rows
        kind = ProcessSlot if self._config.use_async_envs else LocalSlot
        slots: list[Slot] = [
            kind(self._setup) for _ in range(min(asked, self._actor.num_rows, num_tasks))
        ]
        try:
            yield slots
        finally:
            for slot in slots:
                slot.close()
