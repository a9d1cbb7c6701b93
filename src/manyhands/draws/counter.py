"""Counter-based random numbers: each is a hash of (key, sample position, counter).

A rank draws for its own samples alone, and sample k gets the same numbers on any rank. All
operations are integer or correctly rounded, so CPUs and GPUs give the same bits. Nothing is read
on the host: a CUDA graph captures the draws and reads new keys on replay.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor

from manyhands.rng import derive_seed

SPARE = 32  # Values per sample made beyond a request: small requests that follow need no kernels.
COMMON = -1  # Position of the row that all samples have in common.
MULTIPLIERS = (0x3C79AC492BA7B653, 0x1C69B3F74AC4AE35, 0x1B03738712FAD5C9)
"""Odd, with about as many ones as zeros in binary."""
NUM_QUANTILES = 2**16  # Entries of the table that 16 random bits index.


def derive_key(seed: int, stream: str, *indices: int) -> Tensor:
    """The two int64 numbers that select one stream of draws, such as those of one step."""
    return torch.tensor([derive_seed(seed, stream, *indices, half) for half in range(2)])


class CounterSource:
    """Draws for the samples at the given positions of a global batch, on the key's device."""

    def __init__(self, key: Tensor, positions: Tensor) -> None:
        self.num_samples = len(positions)
        self._key = key
        self._positions = positions
        self._num_made = 0
        self._spare = key.new_empty((self.num_samples, 0), dtype=torch.int32)
        self._common: CounterSource | None = None

    @property
    def common(self) -> "CounterSource":
        """A source of one row, the same for all samples of the global batch."""
        if self._common is None:
            row = torch.full((1,), COMMON, device=self._key.device)
            self._common = CounterSource(self._key, row)
        return self._common

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers (samples, *shape)."""
        # The sum of two independent normals: their 2**32 pairs reach beyond six sigma.
        halves = self._bits(math.prod(shape)).view(torch.int16).long()
        parts = normal_table(halves.device)[halves]
        return (parts[:, ::2] + parts[:, 1::2]).view(self.num_samples, *shape)

    def uniform(self, *shape: int) -> Tensor:
        """Multiples of 2**-24 (samples, *shape) in [0, 1)."""
        signed = (self._bits(math.prod(shape)) >> 8).float()
        return (signed * 2.0**-24 + 0.5).view(self.num_samples, *shape)

    def integers(self, high: int, *shape: int) -> Tensor:
        """Integers (samples, *shape) in [0, high)."""
        unsigned = self._bits(math.prod(shape)).long() & 0xFFFFFFFF
        return ((unsigned * high) >> 32).view(self.num_samples, *shape)

    def beta(self, alpha: float) -> Tensor:
        """Numbers (samples,) of the distribution Beta(alpha, 1), alpha a multiple of 0.5."""
        # n uniforms lie below sqrt(x) with probability x ** (n / 2), the CDF of Beta(n / 2, 1).
        largest = self.uniform(round(2 * alpha)).amax(dim=1)
        return largest * largest

    def _bits(self, count: int) -> Tensor:
        """The next int32 values (samples, count), all bits random."""
        if count > self._spare.shape[1]:
            self._spare = self._make_bits(count + SPARE)
        bits, self._spare = self._spare.split_with_sizes(
            [count, self._spare.shape[1] - count], dim=1
        )
        return bits

    def _make_bits(self, count: int) -> Tensor:
        num_words = -(-count // 2)
        first, self._num_made = self._num_made, self._num_made + num_words
        counters = torch.arange(first, self._num_made, device=self._key.device)
        words = (counters + self._key[0]) + (self._positions << 32).unsqueeze(1)
        return hash_words(words, self._key[1]).view(torch.int32)


def hash_words(words: Tensor, key: Tensor) -> Tensor:
    """Hash int64 words in place: a bijection in which every input bit flips any output bit."""
    # The key enters in the middle, so that words of two keys are not shifted copies of each other.
    # On little-endian machines this is `words ^= words >>> 32` in one kernel.
    halves = words.view(torch.int32)
    low, high = halves[..., ::2], halves[..., 1::2]
    first, second, third = MULTIPLIERS
    low.bitwise_xor_(high)
    words.mul_(first)
    low.bitwise_xor_(high)
    words.add_(key).mul_(second)
    low.bitwise_xor_(high)
    words.mul_(third)
    low.bitwise_xor_(high)
    return words


@lru_cache
def normal_table(device: torch.device) -> Tensor:
    """The quantiles that normal numbers are sums of, on a device."""
    return normal_quantiles().float().to(device)


def normal_quantiles() -> Tensor:
    """Middles of cells of equal probability, scaled to a variance of one half, in float64."""
    places = torch.arange(NUM_QUANTILES, dtype=torch.float64, device="cpu") + 0.5
    quantiles: Tensor = torch.special.ndtri(places / NUM_QUANTILES)
    return quantiles / quantiles.square().mean().mul(2).sqrt()
