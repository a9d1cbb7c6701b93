"""Layers of the vision-language model and of the action expert.

They consist of submodules of transformers' layers, under their names. Each is called as a module
with all it needs, so that it can be sharded, recomputed and compiled by itself.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands.policies.smolvla.attention import (
    Attention,
    ExpertHeads,
    Heads,
    Rotation,
    applied,
    join_heads,
    rms_norm,
    split_heads,
    weight_dtype,
)


class AttentionContext(NamedTuple):
    """Positions and attention mask of tokens."""

    rotation: Rotation
    mask: Tensor  # In the form that the attention implementation needs.


class VisionLayer(nn.Module):
    """A layer of the image encoder, in which all patches of an image attend to each other."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.self_attn = layer.self_attn
        self.layer_norm1 = layer.layer_norm1
        self.mlp = layer.mlp
        self.layer_norm2 = layer.layer_norm2

    def forward(self, hidden: Tensor) -> Tensor:
        """New patches (images, patches, values)."""
        attn = self.self_attn
        normed = self.layer_norm1(hidden).to(weight_dtype(attn.q_proj.weight))
        queries, keys, values = (
            split_heads(projection(normed), attn.head_dim)
            for projection in (attn.q_proj, attn.k_proj, attn.v_proj)
        )
        mixed = join_heads(F.scaled_dot_product_attention(queries, keys, values))
        hidden = hidden + attn.out_proj(mixed)
        changed: Tensor = self.mlp(self.layer_norm2(hidden).to(weight_dtype(self.mlp.fc1.weight)))
        return hidden + changed


class TextLayer(nn.Module):
    """A layer of the vision-language model; the last one only computes keys and values."""

    def __init__(self, layer: Any, attention: Attention, is_last: bool) -> None:
        super().__init__()
        _adopt_submodules(self, layer)
        self._attention = attention
        self._is_last = is_last

    def forward(
        self, hidden: Tensor, sight: AttentionContext, before: Heads | None = None
    ) -> tuple[Tensor, Heads]:
        """New tokens, and keys and values of them and of those before them."""
        normed = _normed(self, hidden)
        seen = _heads(self, normed, sight.rotation)
        if before is not None:
            seen = _joined(before, seen)
        if self._is_last:
            return hidden, seen
        mixed = self._attention(_queries(self, normed, sight.rotation), seen, sight.mask)
        return _finished(self, hidden, mixed), seen


class ExpertLayer(nn.Module):
    """A layer of the expert: self-attention with earlier actions, or cross-attention."""

    def __init__(self, layer: Any, attention: Attention, is_joint: bool) -> None:
        super().__init__()
        _adopt_submodules(self, layer)
        self._attention = attention
        self.is_joint = is_joint

    def forward(self, tokens: Tensor, seen: Heads, sight: AttentionContext) -> Tensor:
        """New action tokens, given keys and values of the vision-language model."""
        normed = _normed(self, tokens)
        if self.is_joint:
            seen = _joined(seen, _heads(self, normed, sight.rotation))
        elif not isinstance(seen, ExpertHeads):
            seen = self.translated(seen)
        mixed = self._attention(_queries(self, normed, sight.rotation), seen, sight.mask)
        return _finished(self, tokens, mixed)

    def translated(self, seen: Heads) -> ExpertHeads:
        """Keys and values of the vision-language model, projected for cross-attention."""
        attn: Any = self.self_attn
        keys, values = (
            split_heads(applied(projection, join_heads(each)), attn.head_dim)
            for projection, each in zip((attn.k_proj, attn.v_proj), seen, strict=True)
        )
        return ExpertHeads(keys, values)


def _adopt_submodules(layer: Any, given: Any) -> None:
    layer.self_attn = given.self_attn
    layer.mlp = given.mlp
    layer.input_layernorm = given.input_layernorm
    layer.post_attention_layernorm = given.post_attention_layernorm


def _normed(layer: Any, hidden: Tensor) -> Tensor:
    return rms_norm(hidden, layer.input_layernorm).to(weight_dtype(layer.self_attn.q_proj.weight))


def _queries(layer: Any, normed: Tensor, rotation: Rotation) -> Tensor:
    attn = layer.self_attn
    return rotation(split_heads(applied(attn.q_proj, normed), attn.head_dim))


def _heads(layer: Any, normed: Tensor, rotation: Rotation) -> Heads:
    attn = layer.self_attn
    keys = split_heads(applied(attn.k_proj, normed), attn.head_dim)
    return Heads(rotation(keys), split_heads(applied(attn.v_proj, normed), attn.head_dim))


def _joined(first: Heads, second: Heads) -> Heads:
    keys, values = (torch.cat(pair, dim=2) for pair in zip(first, second, strict=True))
    return Heads(keys, values)


def _finished(layer: Any, hidden: Tensor, mixed: Tensor) -> Tensor:
    added = applied(layer.self_attn.o_proj, mixed)
    # In the dtype of the layer's products from here on, whatever the input was.
    hidden = (added + hidden).to(added.dtype)
    normed = rms_norm(hidden, layer.post_attention_layernorm)
    changed: Tensor = layer.mlp(normed.to(weight_dtype(layer.mlp.gate_proj.weight)))
    return (changed + hidden).to(changed.dtype)
