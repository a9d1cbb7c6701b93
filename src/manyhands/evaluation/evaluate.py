"""Evaluates a policy in simulation: the same numbers on any number of ranks and environments."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

import torch

from manyhands.config.sections.env import EnvConfig
from manyhands.config.sections.eval import EvalConfig
from manyhands.errors import UserError
from manyhands.evaluation.actor import Actor
from manyhands.evaluation.rollout import (
    EpisodeResult,
    EpisodeTask,
    OnSteps,
    Rollout,
    refuse_broken,
)
from manyhands.evaluation.rollout_control import RolloutControl
from manyhands.policies.policy import Policy
from manyhands.sim.environment import check_action_size
from manyhands.sim.episode import Begin, EpisodeSetup, Open
from manyhands.sim.slot import LocalSlot, ProcessSlot, Slot, answer

OnResult = Callable[[EpisodeResult], None]

MIN_CRASHES = 3
"""Episodes that crash, before any other has ended, until no more are tried."""


class Evaluator:
    """Runs episodes of a policy in an environment."""

    def __init__(
        self,
        policy: Policy,
        env: EnvConfig,
        config: EvalConfig,
        seed: int,
        control: RolloutControl | None = None,
    ) -> None:
        self.env = env
        self.num_episodes = config.n_episodes
        self.expected_success = config.expected_success
        self._policy = policy
        self._config = config
        self._control = control or RolloutControl()
        self._seed = seed
        self._setup = episode_setup(policy, env)
        # What cannot work is reported before any episode.
        with closing(self._slot()) as slot:
            opened = answer(slot, Open())
        action_shape = policy.config.output_features["action"].shape
        check_action_size(env.type, opened.action_size, math.prod(action_shape))
        self._actor = Actor(policy, seed, opened.instruction)

    def tasks(self, rank: int, num_ranks: int) -> list[EpisodeTask]:
        """The episodes of a rank: a contiguous slice of all."""
        first, end = (self.num_episodes * each // num_ranks for each in (rank, rank + 1))
        return [EpisodeTask(index, self._seed + index) for index in range(first, end)]

    def results(
        self,
        tasks: Sequence[EpisodeTask],
        on_result: OnResult = lambda _: None,
        on_steps: OnSteps = lambda _: None,
    ) -> list[EpisodeResult]:
        """Run episodes; results are in the order of the tasks. A stop leaves the others out."""
        found: list[EpisodeResult] = []
        if not tasks:
            return found
        with self._slots(len(tasks)) as slots:
            max_steps = self.env.episode_length
            rollout = Rollout(self._policy, self._actor, slots, max_steps, self._control)
            with explaining_oom(self._actor.num_rows), tf32_on_gpu(self._policy.device):
                for result in rollout.results(tasks, on_steps):
                    found.append(result)
                    refuse_broken(found, max(len(slots), MIN_CRASHES))
                    on_result(result)
        return sorted(found, key=lambda result: result.index)

    def try_out(self) -> None:
        """Begin an episode, so that an environment that cannot is reported early."""
        with closing(self._slot()) as slot:
            answer(slot, Begin(self._seed))

    def _slot(self) -> Slot:
        if self._config.use_async_envs:
            return ProcessSlot(self._setup, self._config.timeout_s)
        return LocalSlot(self._setup)

    @contextmanager
    def _slots(self, num_tasks: int) -> Iterator[list[Slot]]:
        most = self._actor.num_rows * self._actor.num_groups
        number = min(self._config.batch_size or most, most, num_tasks)
        slots = [self._slot() for _ in range(number)]
        try:
            yield slots
        finally:
            for slot in slots:
                slot.close()


def episode_setup(policy: Policy, env: EnvConfig) -> EpisodeSetup:
    """Episodes in which the environment gives what a policy reads, as it arrives."""
    config, arriving = policy.config, policy.arriving_names
    inputs = {key: config.input_features[name].shape for name, key in arriving.items()}
    optional = [key for name, key in arriving.items() if config.is_optional_input(name)]
    num_observations = len(config.observation_offsets or (0,))
    return EpisodeSetup(env, inputs, frozenset(optional), num_observations)


@contextmanager
def tf32_on_gpu(device: torch.device) -> Iterator[None]:
    """Let a GPU multiply float32 matrices in TF32, as LeRobot's evaluation does."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if device.type == "cuda" else precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)


@contextmanager
def explaining_oom(num_rows: int) -> Iterator[None]:
    """Report a GPU without room for predictions."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise UserError(
            f"the GPU has not enough memory to predict for {num_rows} episodes at once. End other "
            "programs on it, or evaluate on the CPU: manyhands eval --policy.device=cpu"
        ) from None
