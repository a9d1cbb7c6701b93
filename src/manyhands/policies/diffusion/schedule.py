"""Noise schedule of the forward process.

A step of the forward process removes a fraction `beta` of the signal's variance; `alpha_bar`, the
fraction that remains after it and all steps before, determines everything else.
"""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from manyhands.config.diffusion import DiffusionConfig

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
