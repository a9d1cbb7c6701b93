"""Attention as LeRobot's SmolVLA computes it, one operation at a time.

Heads are (samples, heads, tokens, values). Products and softmax are never in less than single
precision; where weights are of less, results go back to their type.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

_LONGEST_WAVE = 10_000.0


class Heads(NamedTuple):
    """Keys and values, which several heads of queries may share."""

    keys: Tensor
    values: Tensor


class Rotation(NamedTuple):
    """Cosines and sines (samples, 1, tokens, half of the values) of tokens' positions."""

    cosine: Tensor
    sine: Tensor

    def __call__(self, heads: Tensor) -> Tensor:
        """Heads turned by the angles of their positions."""
        first, second = heads.to(self.cosine.dtype).chunk(2, dim=-1)
        turned = (
            first * self.cosine - second * self.sine,
            second * self.cosine + first * self.sine,
        )
        return torch.cat(turned, dim=-1).to(heads.dtype)


def rotation_of(positions: Tensor, head_dim: int) -> Rotation:
    """The rotation of tokens at positions (samples, tokens)."""
    half = head_dim // 2
    exponents = torch.arange(half, dtype=torch.float32, device=positions.device) * (2 / head_dim)
    angles = positions[..., None].float() / _LONGEST_WAVE**exponents
    return Rotation(angles.cos()[:, None], angles.sin()[:, None])


def attention(queries: Tensor, seen: Heads, visible: Tensor) -> Tensor:
    """What each query makes of the tokens visible to it (samples, queries, keys), heads joined."""
    num_shared = queries.shape[1] // seen.keys.shape[1]
    keys, values = (each.repeat_interleave(num_shared, dim=1) for each in seen)
    kind = torch.promote_types(queries.dtype, torch.float32)
    logits = queries.to(kind) @ keys.to(kind).transpose(-1, -2) * queries.shape[-1] ** -0.5
    # Not minus infinity: a query that sees nothing is padding, and must not become NaN.
    logits = logits.masked_fill(~visible[:, None], torch.finfo(logits.dtype).min)
    shares = logits.softmax(dim=-1).to(values.dtype)
    return join_heads(shares @ values)


def split_heads(tokens: Tensor, head_dim: int) -> Tensor:
    """Tokens (samples, tokens, values) as heads."""
    return tokens.view(*tokens.shape[:2], -1, head_dim).transpose(1, 2)


def join_heads(heads: Tensor) -> Tensor:
    """Heads as tokens (samples, tokens, values)."""
    return heads.transpose(1, 2).flatten(2)


class RmsNorm(Protocol):
    """What a norm of transformers by the root of the mean square has."""

    weight: Tensor
    variance_epsilon: float


def rms_norm(hidden: Tensor, norm: RmsNorm) -> Tensor:
    """What such a norm makes of tokens; what it divides by is computed precisely."""
    precise = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
    mean_square = precise.square().mean(dim=-1, keepdim=True)
    scaled = precise * torch.rsqrt(mean_square + norm.variance_epsilon)
    return norm.weight * scaled.to(hidden.dtype)
