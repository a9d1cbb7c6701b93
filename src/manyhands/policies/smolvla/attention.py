"""Attention of SmolVLA's layers: as LeRobot computes it, or by one fused kernel.

Heads are (samples, heads, tokens, values). What may be seen is (samples, queries, keys), where one
row of queries stands for all if they see the same.
"""

from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_MAX_PERIOD = 10_000.0
_UNSEEN = -30_000.0
"""Added to masked logits: a weight of zero, and no infinity that could become NaN."""
_FEW_HEADS = 32
"""Heads of all samples up to which a fused kernel, a thread block for each, leaves a GPU idle."""
_ALIGNMENT = 8  # Fused kernels read rows of masks that begin at multiples of so many entries.


class Heads(NamedTuple):
    """Keys and values, which several heads of queries may share."""

    keys: Tensor
    values: Tensor


class ExpertHeads(Heads):
    """Keys and values that the expert's own projections have been applied to."""


class Rotation(NamedTuple):
    """Cosines and sines (samples, 1, tokens, values) of tokens' positions.

    Values of the two halves of a head turn in pairs, so both halves of the cosines are equal, and
    those of the sines have opposite signs.
    """

    cosine: Tensor
    sine: Tensor

    def __call__(self, heads: Tensor) -> Tensor:
        """Apply rotary position embeddings to heads."""
        half = heads.shape[-1] // 2
        if is_float32_prediction(heads, self.cosine):
            return torch.addcmul(heads * self.cosine, heads.roll(half, dims=-1), self.sine)
        precise = heads.to(torch.promote_types(heads.dtype, self.cosine.dtype))
        first, second = precise.chunk(2, dim=-1)
        cosine, sine = self.cosine[..., half:], self.sine[..., half:]
        turned = first * cosine - second * sine, second * cosine + first * sine
        return torch.cat(turned, dim=-1).to(heads.dtype)


def rotary_embedding(positions: Tensor, head_dim: int) -> Rotation:
    """The rotation of tokens at positions (samples, tokens)."""
    half = head_dim // 2
    exponents = torch.arange(half, dtype=torch.float32, device=positions.device) * (2 / head_dim)
    angles = (positions[..., None].float() / _MAX_PERIOD**exponents)[:, None]
    cosine, sine = angles.cos(), angles.sin()
    return Rotation(torch.cat([cosine, cosine], dim=-1), torch.cat([-sine, sine], dim=-1))


class Attention(Protocol):
    """An attention implementation."""

    def mask(self, visible: Tensor, kind: torch.dtype) -> Tensor:
        """The mask in the form that this implementation needs for queries of a dtype."""

    def __call__(self, queries: Tensor, seen: Heads, mask: Tensor) -> Tensor:
        """The attention output of each query, heads joined."""


class EagerAttention:
    """Eager attention, in LeRobot's order of operations.

    Products and softmax are never in less than single precision; where weights are of less,
    results go back to their type.
    """

    def mask(self, visible: Tensor, kind: torch.dtype) -> Tensor:
        """The mask unchanged."""
        return visible

    def __call__(self, queries: Tensor, seen: Heads, mask: Tensor) -> Tensor:
        """The attention output of each query, heads joined."""
        num_shared = queries.shape[1] // seen.keys.shape[1]
        keys, values = (each.repeat_interleave(num_shared, dim=1) for each in seen)
        kind = torch.promote_types(queries.dtype, torch.float32)
        logits = queries.to(kind) @ keys.to(kind).transpose(-1, -2) * queries.shape[-1] ** -0.5
        # Not minus infinity: a query that sees nothing is padding, and must not become NaN.
        logits = logits.masked_fill(~mask[:, None], torch.finfo(logits.dtype).min)
        shares = logits.softmax(dim=-1).to(values.dtype)
        return join_heads(shares @ values)


class FusedAttention:
    """One kernel, within rounding the same; several heads of queries share keys and values."""

    def __init__(self, num_shared: int) -> None:
        self._num_shared = num_shared

    def mask(self, visible: Tensor, kind: torch.dtype) -> Tensor:
        """The additive mask, for the queries of heads that share their keys in a row."""
        num_keys = visible.shape[-1]
        added = torch.zeros(visible.shape, dtype=kind, device=visible.device)
        added = added.masked_fill(~visible, _UNSEEN)
        if added.shape[1] > 1:
            added = added.repeat(1, self._num_shared, 1)
        return F.pad(added, (0, -num_keys % _ALIGNMENT))[:, None, :, :num_keys]

    def __call__(self, queries: Tensor, seen: Heads, mask: Tensor) -> Tensor:
        """The attention output of each query, heads joined."""
        keys, values = (each.to(queries.dtype) for each in seen)
        # Heads that share keys become one with more queries: nothing is repeated for them.
        in_a_row = queries.reshape(*keys.shape[:2], -1, queries.shape[-1])
        few = len(keys) * keys.shape[1] <= _FEW_HEADS and is_float32_prediction(queries)
        attend = attention_of_few if few else F.scaled_dot_product_attention
        return join_heads(attend(in_a_row, keys, values, mask).reshape(queries.shape))


def attention_of_few(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Attention as two products, which spread over a whole GPU."""
    logits = torch.add(mask, queries @ keys.transpose(-1, -2), alpha=queries.shape[-1] ** -0.5)
    return logits.softmax(dim=-1) @ values


def split_heads(tokens: Tensor, head_dim: int) -> Tensor:
    """Tokens (samples, tokens, values) as heads."""
    return tokens.view(*tokens.shape[:2], -1, head_dim).transpose(1, 2)


def join_heads(heads: Tensor) -> Tensor:
    """Heads as tokens (samples, tokens, values)."""
    return heads.transpose(1, 2).flatten(2)


def rms_norm(hidden: Tensor, norm: Any) -> Tensor:
    """Apply an RMS norm of transformers; its root mean square is in float32 or better."""
    if is_float32_prediction(hidden, norm.weight):
        return F.rms_norm(hidden, norm.weight.shape, norm.weight, norm.variance_epsilon)
    precise = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
    mean_square = precise.square().mean(dim=-1, keepdim=True)
    scaled = precise * torch.rsqrt(mean_square + norm.variance_epsilon)
    output: Tensor = norm.weight * scaled.to(hidden.dtype)
    return output


def is_float32_prediction(*values: Tensor) -> bool:
    """Whether fewer kernels may compute the same, rounded otherwise: a prediction on a GPU."""
    is_plain = all(each.is_cuda and each.dtype == torch.float32 for each in values)
    return is_plain and not torch.is_grad_enabled()


def weight_dtype(weight: Tensor) -> torch.dtype:
    """The dtype in which products with a weight are computed."""
    device = weight.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype


def applied(projection: nn.Linear, tokens: Tensor) -> Tensor:
    """Apply a linear layer to tokens, in the dtype of its products."""
    output: Tensor = projection(tokens.to(weight_dtype(projection.weight)))
    return output
