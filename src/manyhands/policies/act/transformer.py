"""Encoder and decoder stacks that add position codes to queries and keys at every layer."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands.config.policies.act import ActConfig

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class Attention(nn.Module):
    """Multi-head attention with its three input projections packed as query, key, value."""

    def __init__(self, dim: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self._num_heads = num_heads
        self._dropout = dropout
        self.in_proj_weight = nn.Parameter(torch.empty(3 * dim, dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * dim))
        self.out_proj = nn.Linear(dim, dim)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None = None
    ) -> Tensor:
        """Mix values (samples, tokens, dim); `visible` (samples, 1, 1, tokens) hides padding."""
        q, k, v = (self._split(part) for part in self._project(query, key, value))
        dropout = self._dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=visible, dropout_p=dropout)
        output: Tensor = self.out_proj(mixed.transpose(1, 2).flatten(2))
        return output

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weight, bias = self.in_proj_weight, self.in_proj_bias
        dim = weight.shape[1]
        v = F.linear(value, weight[2 * dim :], bias[2 * dim :])
        if query is key:
            q, k = F.linear(query, weight[: 2 * dim], bias[: 2 * dim]).chunk(2, dim=-1)
            return q, k, v
        q = F.linear(query, weight[:dim], bias[:dim])
        k = F.linear(key, weight[dim : 2 * dim], bias[dim : 2 * dim])
        return q, k, v

    def _split(self, tokens: Tensor) -> Tensor:
        return tokens.view(*tokens.shape[:2], self._num_heads, -1).transpose(1, 2)


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward sublayer."""

    lerobot_class: ClassVar[str] = "ACTEncoderLayer"

    def __init__(self, config: ActConfig) -> None:
        super().__init__()
        dim = config.dim_model
        self._pre_norm = config.pre_norm
        self.activation = _ACTIVATIONS[config.feedforward_activation]
        self.self_attn = Attention(dim, config.n_heads, config.dropout)
        self.linear1 = nn.Linear(dim, config.dim_feedforward)
        self.linear2 = nn.Linear(config.dim_feedforward, dim)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        tokens: Tensor,
        position: Tensor,
        visible: Tensor | None = None,
        num_outputs: int | None = None,
    ) -> Tensor:
        """New tokens (samples, tokens, dim), or only the first `num_outputs` of them."""

        def attend(normed: Tensor) -> Tensor:
            keys = normed + position
            queries = keys if num_outputs is None else keys[:, :num_outputs]
            mixed: Tensor = self.dropout(self.self_attn(queries, keys, normed, visible))
            return mixed

        tokens = _residual(tokens, attend, self.norm1, self._pre_norm)
        return _residual(tokens, partial(_feed_forward, self), self.norm2, self._pre_norm)


class DecoderLayer(nn.Module):
    """Self-attention, attention to the encoder's memory, and a feed-forward sublayer."""

    lerobot_class: ClassVar[str] = "ACTDecoderLayer"

    def __init__(self, config: ActConfig) -> None:
        super().__init__()
        dim = config.dim_model
        self._pre_norm = config.pre_norm
        self.activation = _ACTIVATIONS[config.feedforward_activation]
        self.self_attn = Attention(dim, config.n_heads, config.dropout)
        self.multihead_attn = Attention(dim, config.n_heads, config.dropout)
        self.linear1 = nn.Linear(dim, config.dim_feedforward)
        self.linear2 = nn.Linear(config.dim_feedforward, dim)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.norm3 = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, tokens: Tensor, position: Tensor, memory_keys: Tensor, memory: Tensor
    ) -> Tensor:
        """New tokens (samples, steps, dim); `memory_keys` is the memory with its position codes."""

        def attend_tokens(normed: Tensor) -> Tensor:
            keys = normed + position
            mixed: Tensor = self.dropout(self.self_attn(keys, keys, normed))
            return mixed

        def attend_memory(normed: Tensor) -> Tensor:
            queries = normed + position
            mixed: Tensor = self.dropout(self.multihead_attn(queries, memory_keys, memory))
            return mixed

        tokens = _residual(tokens, attend_tokens, self.norm1, self._pre_norm)
        tokens = _residual(tokens, attend_memory, self.norm2, self._pre_norm)
        return _residual(tokens, partial(_feed_forward, self), self.norm3, self._pre_norm)


class Encoder(nn.Module):
    """A stack of encoder layers."""

    def __init__(self, config: ActConfig, num_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(num_layers))
        self.norm = nn.LayerNorm(config.dim_model) if config.pre_norm else nn.Identity()

    def forward(
        self,
        tokens: Tensor,
        position: Tensor,
        visible: Tensor | None = None,
        num_outputs: int | None = None,
    ) -> Tensor:
        """New tokens (samples, tokens, dim), or only the first `num_outputs` of them."""
        for layer in self.layers[:-1]:
            tokens = layer(tokens, position, visible)
        for layer in self.layers[-1:]:
            tokens = layer(tokens, position, visible, num_outputs)
        output: Tensor = self.norm(tokens[:, :num_outputs])
        return output


class Decoder(nn.Module):
    """A stack of decoder layers that starts from zeros and the places of the actions."""

    def __init__(self, config: ActConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        self.norm = nn.LayerNorm(config.dim_model)

    def forward(self, position: Tensor, memory: Tensor, memory_position: Tensor) -> Tensor:
        """One token per action (samples, steps, dim) for queries at `position` (steps, dim)."""
        memory_keys = memory + memory_position
        tokens = memory.new_zeros(memory.shape[0], *position.shape)
        for layer in self.layers:
            tokens = layer(tokens, position, memory_keys, memory)
        output: Tensor = self.norm(tokens)
        return output


def _residual(
    tokens: Tensor, sublayer: Callable[[Tensor], Tensor], norm: nn.Module, pre_norm: bool
) -> Tensor:
    """Add a sublayer's output to the tokens; it may cover only the first of them."""
    if pre_norm:
        added = sublayer(norm(tokens))
        return tokens[:, : added.shape[1]] + added
    added = sublayer(tokens)
    output: Tensor = norm(tokens[:, : added.shape[1]] + added)
    return output


def _feed_forward(layer: EncoderLayer | DecoderLayer, tokens: Tensor) -> Tensor:
    hidden = layer.dropout(layer.activation(layer.linear1(tokens)))
    output: Tensor = layer.dropout(layer.linear2(hidden))
    return output
