"""Denoise actions in a few steps.

DDPM and DDIM take the same kind of step. Noisy actions and the network's output, weighted, give an
estimate of the clean actions, which may be clipped; the three of them, weighted, and fresh noise
give less noisy actions. All weights follow from the schedule and are known beforehand.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from manyhands.config.policies.diffusion import DiffusionConfig

# A step of the forward process removes a fraction `beta` of the signal's variance; `alpha_bar`,
# the fraction that remains after it and all steps before, determines everything else.
_MAX_BETA = 0.999


def alpha_bars(config: DiffusionConfig) -> NDArray[np.float32]:
    """alpha_bar: the fraction of the signal's variance (timesteps,) left after each step."""
    kept = 1 - betas(config)
    return np.cumprod(kept, dtype=np.float64).astype(np.float32)


def betas(config: DiffusionConfig) -> NDArray[np.float32]:
    """beta: the fraction of the signal's variance (timesteps,) that each step removes."""
    num, first, last = config.num_train_timesteps, config.beta_start, config.beta_end
    match config.beta_schedule:
        case "linear":
            shares = np.linspace(first, last, num)
        case "scaled_linear":
            shares = np.linspace(first**0.5, last**0.5, num) ** 2
        case "sigmoid":
            shares = (last - first) / (1 + np.exp(-np.linspace(-6, 6, num))) + first
        case "laplace":
            shares = _betas_along(_laplace, num)
        case _:
            shares = _betas_along(_squared_cosine, num)
    return shares.astype(np.float32)


def _betas_along(curve: Callable[[float], float], num_steps: int) -> NDArray[np.float64]:
    """The betas that follow a curve of alpha_bar from time 0 to 1."""
    left = [curve(step / num_steps) for step in range(num_steps + 1)]
    return np.array([min(1 - after / before, _MAX_BETA) for before, after in pairwise(left)])


def _squared_cosine(time: float) -> float:
    return math.cos((time + 0.008) / 1.008 * math.pi / 2) ** 2


def _laplace(time: float) -> float:
    away = 0.5 - time
    signal_to_noise = math.exp(-0.5 * math.copysign(1, away) * math.log1p(1e-6 - 2 * abs(away)))
    return math.sqrt(signal_to_noise / (1 + signal_to_noise))


Denoise = Callable[[Tensor, int], Tensor]
"""The network's output for noisy actions at the step of this number, counted from the first."""

_MIN_VARIANCE = 1e-20


class DenoisingStep(NamedTuple):
    """Coefficients of one step."""

    timestep: int
    clean: tuple[float, float]
    """Weights of the noisy actions and of the output in the clean actions."""
    following: tuple[float, float, float]
    """Weights of these two and of the clean actions in the less noisy ones."""
    fresh_noise: float  # Scale of the fresh noise.


class Sampler:
    """The denoising steps of a policy, prepared once."""

    def __init__(self, config: DiffusionConfig) -> None:
        self.steps = denoising_steps(config)
        self._limit = config.clip_sample_range if config.clip_sample else None

    def sample(self, denoise: Denoise, noise: Tensor, step_noise: Tensor | None = None) -> Tensor:
        """Actions out of noise of their shape."""
        # Fresh noise is `step_noise` (samples, steps, ...), or is drawn when its step has come.
        actions = noise
        for number, step in enumerate(self.steps):
            output = denoise(actions, number)
            clean = mixture(step.clean, actions, output)
            if self._limit is not None:
                clean = clean.clamp(-self._limit, self._limit)
            actions = mixture(step.following, actions, output, clean)
            if step.fresh_noise > 0:
                fresh = torch.randn_like(noise) if step_noise is None else step_noise[:, number]
                actions = torch.add(actions, fresh, alpha=step.fresh_noise)
        return actions


def mixture(weights: tuple[float, ...], *values: Tensor) -> Tensor:
    """The weighted sum of tensors; those without a weight are skipped."""
    weighted = [(value, weight) for value, weight in zip(values, weights, strict=True) if weight]
    (first, weight), *others = weighted
    total = first * weight
    for value, weight in others:
        total = torch.add(total, value, alpha=weight)
    return total


def denoising_steps(config: DiffusionConfig) -> list[DenoisingStep]:
    """The inference timesteps, evenly spaced down to 0."""
    left = [float(share) for share in alpha_bars(config)]
    distance = config.num_train_timesteps // config.num_denoising_steps
    timesteps = [distance * number for number in reversed(range(config.num_denoising_steps))]
    make = _ddpm_step if config.noise_scheduler_type == "DDPM" else _ddim_step
    predicts_noise = config.prediction_type == "epsilon"
    return [
        make(time, left[time], left[time - distance] if time > 0 else 1.0, predicts_noise)
        for time in timesteps
    ]


def _ddpm_step(
    timestep: int, left: float, left_after: float, predicts_noise: bool
) -> DenoisingStep:
    """A draw from what may have come before, given the clean actions."""
    # LeRobot rounds this fraction, whose complement is small: other rounding gives other weights.
    kept = float(np.float32(left / left_after))
    following = (
        sqrt(kept) * (1 - left_after) / (1 - left),
        0.0,
        sqrt(left_after) * (1 - kept) / (1 - left),
    )
    variance = (1 - left_after) / (1 - left) * (1 - kept)
    fresh_noise = sqrt(max(variance, _MIN_VARIANCE)) if timestep > 0 else 0.0
    return DenoisingStep(timestep, _clean(left, predicts_noise), following, fresh_noise)


def _ddim_step(
    timestep: int, left: float, left_after: float, predicts_noise: bool
) -> DenoisingStep:
    """The clean actions with less of the noise that was predicted, before any clipping."""
    amount = sqrt(1 - left_after)
    if predicts_noise:
        noise = 0.0, amount
    else:
        noise = amount / sqrt(1 - left), -amount * sqrt(left / (1 - left))
    following = (*noise, sqrt(left_after))
    return DenoisingStep(timestep, _clean(left, predicts_noise), following, 0.0)


def _clean(left: float, predicts_noise: bool) -> tuple[float, float]:
    return (1 / sqrt(left), -sqrt((1 - left) / left)) if predicts_noise else (0.0, 1.0)
