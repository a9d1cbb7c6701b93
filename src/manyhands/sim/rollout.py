"""Roll out a policy in simulated worlds and record the result of each episode.

Seeds are taken in groups of the environment's `num_worlds`, and a world that has finished stays in
its group: what a policy sees together depends on the seeds alone, not on how episodes go.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch

from manyhands.types import Batch, Environment, Policy


@dataclass(frozen=True)
class EpisodeResult:
    """How one episode went; `frames` are its images, if requested."""

    seed: int
    success: bool
    sum_reward: float
    max_reward: float
    length: int
    frames: np.ndarray | None = field(default=None, repr=False, compare=False)


class FilmableEnvironment(Environment, Protocol):
    """An environment that can render."""

    def render(self, size: int, worlds: Sequence[int] | None = None) -> np.ndarray:
        """Images (worlds, size, size, 3) of all worlds, or of those given by position."""


@dataclass(frozen=True)
class Film:
    """Which episodes to render, and at which size."""

    seeds: Collection[int]
    frame_size: int = 256


def roll_out(
    policy: Policy,
    environment: FilmableEnvironment,
    seeds: Sequence[int],
    max_steps: int,
    film: Film | None = None,
) -> list[EpisodeResult]:
    """One episode per seed, in their order; each ends at success or after `max_steps`."""
    size = environment.num_worlds
    groups = [list(seeds[start : start + size]) for start in range(0, len(seeds), size)]
    film = film or Film(seeds=())
    return [
        result
        for group in groups
        for result in _roll_out_together(policy, environment, group, max_steps, film)
    ]


def _roll_out_together(
    policy: Policy,
    environment: FilmableEnvironment,
    seeds: list[int],
    max_steps: int,
    film: Film,
) -> list[EpisodeResult]:
    device = next(policy.network.parameters()).device
    notes = _Notes(seeds, film)
    policy.reset()
    observation = environment.reset(seeds)
    notes.look(environment)
    for _ in range(max_steps):
        batch = _as_batch(observation, environment.instruction, device)
        action = policy.select_action(batch).detach().cpu().numpy()
        observation, reward, success = environment.step(action)
        notes.record(reward, success)
        notes.look(environment)
        notes.running &= ~success
        if not notes.running.any():
            break
    return notes.results()


class _Notes:
    """Results so far of each world; a finished world is not changed."""

    def __init__(self, seeds: list[int], film: Film) -> None:
        self.running = np.ones(len(seeds), dtype=bool)
        self._seeds = seeds
        self._film = film
        self._filmed = np.isin(seeds, list(film.seeds))
        self._frames: list[list[np.ndarray]] = [[] for _ in seeds]
        self._success = np.zeros(len(seeds), dtype=bool)
        self._sum_reward = np.zeros(len(seeds))
        self._max_reward = np.full(len(seeds), -np.inf)
        self._length = np.zeros(len(seeds), dtype=int)

    def record(self, reward: np.ndarray, success: np.ndarray) -> None:
        self._success |= self.running & success
        self._sum_reward += np.where(self.running, reward, 0.0)
        self._max_reward = np.maximum(self._max_reward, np.where(self.running, reward, -np.inf))
        self._length += self.running

    def look(self, environment: FilmableEnvironment) -> None:
        """Render each filmed world still running."""
        worlds = np.flatnonzero(self._filmed & self.running).tolist()
        if not worlds:
            return
        pictures = environment.render(self._film.frame_size, worlds)
        for world, picture in zip(worlds, pictures, strict=True):
            self._frames[world].append(picture)

    def results(self) -> list[EpisodeResult]:
        return [
            EpisodeResult(
                seed=seed,
                success=bool(self._success[world]),
                sum_reward=float(self._sum_reward[world]),
                max_reward=float(self._max_reward[world]),
                length=int(self._length[world]),
                frames=np.stack(self._frames[world]) if self._filmed[world] else None,
            )
            for world, seed in enumerate(self._seeds)
        ]


def _as_batch(observation: dict[str, np.ndarray], instruction: str, device: torch.device) -> Batch:
    """An observation as a policy takes it: tensors on its device, images channel-first."""
    batch: Batch = {}
    for name, array in observation.items():
        value = torch.from_numpy(array)
        channel_first = value.permute(0, 3, 1, 2).contiguous() if value.ndim == 4 else value
        batch[name] = channel_first.to(device)
        batch["task"] = [instruction] * len(value)
    return batch


Z_95 = 1.959964  # Standard deviations to each side that cover 95 % of a normal distribution


@dataclass(frozen=True)
class Score:
    """Success rate with its 95 % interval, and rewards averaged over episodes."""

    success: float
    interval: tuple[float, float]
    num_episodes: int
    mean_sum_reward: float
    mean_max_reward: float


def score(results: Sequence[EpisodeResult]) -> Score:
    """Sum up at least one episode."""
    num_episodes = len(results)
    num_successes = sum(result.success for result in results)
    return Score(
        success=num_successes / num_episodes,
        interval=wilson_interval(num_successes, num_episodes),
        num_episodes=num_episodes,
        mean_sum_reward=sum(result.sum_reward for result in results) / num_episodes,
        mean_max_reward=sum(result.max_reward for result in results) / num_episodes,
    )


def wilson_interval(num_successes: int, num_trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a success rate; valid also at 0 % and 100 %."""
    rate, spread = num_successes / num_trials, Z_95**2 / num_trials
    center = (rate + spread / 2) / (1 + spread)
    margin = (spread * (rate * (1 - rate) + spread / 4)) ** 0.5 / (1 + spread)
    return max(0.0, center - margin), min(1.0, center + margin)
