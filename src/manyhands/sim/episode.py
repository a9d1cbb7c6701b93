"""One episode: actions in, rewards and the observations that the policy reads out."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from manyhands.config.sections.env import EnvConfig
from manyhands.sim.build import build_environment
from manyhands.sim.environment import Observation, Shapes


@dataclass(frozen=True)
class EpisodeSetup:
    """How episodes are run for a policy."""

    config: EnvConfig
    inputs: Shapes
    """What the policy reads."""
    optional: frozenset[str] = frozenset()
    """Inputs that the environment need not give, if it gives one of them."""
    num_observations: int = 1
    """Latest observations that the policy reads together."""


@dataclass(frozen=True)
class Open:
    """Build the environment, without beginning an episode."""


class Recorder(Protocol):
    """Makes a film of frames; it is sent to where the episode runs before the first of them."""

    def add(self, frame: np.ndarray) -> None:
        """Append an image."""

    def finish(self) -> Any:
        """The film."""


@dataclass(frozen=True)
class Begin:
    """Begin the episode of a seed; with a recorder every step is rendered."""

    seed: int
    recorder: Recorder | None = None


@dataclass(frozen=True)
class Act:
    """Execute actions (steps, action), one after the other."""

    actions: np.ndarray


Command = Open | Begin | Act


@dataclass(frozen=True)
class Segment:
    """What a command led to."""

    observation: Observation
    """Arrays (observations, ...) by input of the policy, the latest last."""
    rewards: tuple[float, ...] = ()
    success: bool = False
    ended: bool = False
    film: Any = field(default=None, repr=False)
    """What the recorder made of the episode, once it has ended."""
    instruction: str = ""
    """Task text for policies that read language, once the environment is built."""
    action_size: int = 0
    """Numbers in an action, once the environment is built."""


class Episode:
    """Runs episodes in an environment, one after the other."""

    def __init__(self, setup: EpisodeSetup) -> None:
        self._environment = build_environment(setup.config, setup.inputs, setup.optional)
        self._max_steps = setup.config.episode_length
        self._history: deque[Observation] = deque(maxlen=setup.num_observations)
        self._num_steps = 0
        self._recorder: Recorder | None = None

    def run(self, command: Command) -> Segment:
        """Execute a command."""
        match command:
            case Open():
                environment = self._environment
                return Segment(
                    {},
                    instruction=environment.instruction,
                    action_size=environment.action_size,
                )
            case Begin():
                return self._begin(command)
            case Act():
                return self._act(command.actions)

    def _begin(self, command: Begin) -> Segment:
        self._environment.reset(command.seed)
        self._num_steps, self._recorder = 0, command.recorder
        self._record_frame()
        # Before the first step a policy sees the first observation repeatedly.
        first = self._environment.observe()
        self._history.extend([first] * (self._history.maxlen or 1))
        return Segment(self._stacked())

    def _act(self, actions: np.ndarray) -> Segment:
        rewards: list[float] = []
        first_read = len(actions) - (self._history.maxlen or 1)
        for number, action in enumerate(actions):
            outcome = self._environment.step(action)
            self._num_steps += 1
            rewards.append(outcome.reward)
            self._record_frame()
            ended = outcome.ended or self._num_steps >= self._max_steps
            if ended:
                break
            if number >= first_read:
                self._history.append(self._environment.observe())
        film = self._recorder.finish() if ended and self._recorder else None
        return Segment(self._stacked(), tuple(rewards), outcome.success, ended, film)

    def _record_frame(self) -> None:
        if self._recorder is not None:
            self._recorder.add(self._environment.render())

    def _stacked(self) -> Observation:
        return {
            name: np.stack([observation[name] for observation in self._history])
            for name in self._history[-1]
        }
