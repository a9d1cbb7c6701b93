"""Two stacks of layers side by side: the vision-language model reads, the action expert acts.

What is observed, the prefix, never sees the actions. So it is read once, and each of its layers
leaves keys and values behind: the memory, to which the expert's layers then attend. Training and
every step of acting are the same two functions.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from manyhands.config.smolvla import SmolVLAConfig
from manyhands.errors import ConfigError
from manyhands.policies.smolvla.attention import (
    Heads,
    Rotation,
    attention,
    join_heads,
    rms_norm,
    rotation_of,
    split_heads,
)
from manyhands.policies.smolvla.vlm import (
    build_expert,
    build_vlm,
    is_self_attention,
    read_vlm_config,
    text_model_of,
)


class Prefix(NamedTuple):
    """What is observed, as tokens."""

    tokens: Tensor
    """(samples, tokens, width)."""
    is_valid: Tensor
    """(samples, tokens), whether it is more than padding."""
    blocks: Tensor
    """(tokens,), of which each sees its own and those of lower numbers."""


class Memory(NamedTuple):
    """What the expert knows of a prefix."""

    seen: list[Heads]
    """By layer of the expert."""
    is_valid: Tensor
    """(samples, tokens), as in the prefix."""


class VlmWithExpert(nn.Module):
    """The vision-language model and its action expert, under LeRobot's names."""

    def __init__(self, config: SmolVLAConfig) -> None:
        super().__init__()
        found = read_vlm_config(config)
        self._config = config
        self._head_dim: int = found.text_config.head_dim
        self.vlm: Any = build_vlm(found, config)
        expert = build_expert(found, config)
        self.lm_expert: Any = expert
        self.width: int = found.text_config.hidden_size
        self.expert_width: int = expert.config.hidden_size
        self._readers = readers_of(config, found.text_config.num_hidden_layers)
        self._freeze()

    def _freeze(self) -> None:
        """Leave out of training what is asked for, and what nothing depends on."""
        idle = [self.vlm.lm_head, self._text.norm, *self._text.layers[self._readers[-1] :]]
        asked = [self.vlm] if self._config.train_expert_only else []
        if self._config.freeze_vision_encoder:
            asked.append(self.vlm.model.vision_model)
        for module in (*asked, *idle):
            module.requires_grad_(False)
        self._resting = asked

    def train(self, mode: bool = True) -> "VlmWithExpert":
        """Switch modes; parts that do not learn stay in evaluation mode."""
        super().train(mode)
        for module in self._resting:
            module.eval()
        return self

    @property
    def _text(self) -> Any:
        return text_model_of(self.vlm)

    def image_tokens(self, pixels: Tensor) -> Tensor:
        """Tokens (images, tokens, width) of images from -1 to 1."""
        vision = self.vlm.model.vision_model
        pixels = pixels.to(vision.embeddings.patch_embedding.weight.dtype)
        encoded = vision(pixel_values=pixels, patch_attention_mask=None).last_hidden_state
        tokens: Tensor = self.vlm.model.connector(encoded)
        # As a tensor of their type: LeRobot rounds the factor too.
        return tokens * tokens.new_full((), math.sqrt(self.width))

    def word_tokens(self, words: Tensor) -> Tensor:
        """Tokens (..., width) of numbers of words, not scaled."""
        tokens: Tensor = self._text.embed_tokens(words)
        return tokens

    def read(self, prefix: Prefix) -> Memory:
        """What the expert may know of a prefix."""
        seen = self._read(prefix)
        layers = self.lm_expert.layers
        own = [
            heads if self._is_joint(reader) else self._translated(layer, heads)
            for layer, reader, heads in zip(layers, self._readers, seen, strict=True)
        ]
        return Memory(own, prefix.is_valid)

    def _read(self, prefix: Prefix) -> list[Heads]:
        """Keys and values of the layers that the expert's layers read along with."""
        hidden, is_valid = prefix.tokens, prefix.is_valid
        rotation = rotation_of(is_valid.long().cumsum(dim=1) - 1, self._head_dim)
        visible = (
            (prefix.blocks <= prefix.blocks[:, None]) & is_valid[:, None] & is_valid[..., None]
        )
        seen = []
        last = self._readers[-1]
        for index, layer in enumerate(self._text.layers[: last + 1]):
            normed = rms_norm(hidden, layer.input_layernorm)
            heads = self._heads(layer, normed, rotation)
            if index in self._readers:
                seen.append(heads)
            if index < last:
                queries = self._queries(layer, normed, rotation)
                hidden = _finished(layer, hidden, attention(queries, heads, visible))
        return seen

    def _translated(self, layer: Any, heads: Heads) -> Heads:
        """Keys and values of the vision-language model in the expert's terms."""
        attn = layer.self_attn
        own = [
            split_heads(_applied(projection, join_heads(each)), self._head_dim)
            for projection, each in zip((attn.k_proj, attn.v_proj), heads, strict=True)
        ]
        return Heads(*own)

    def act(self, tokens: Tensor, memory: Memory) -> Tensor:
        """What becomes of action tokens (samples, steps, width), each seeing those before it."""
        num_steps = tokens.shape[1]
        steps = torch.arange(num_steps, device=tokens.device)
        num_seen = memory.is_valid.sum(dim=1, keepdim=True)
        apart, behind = (
            rotation_of(positions, self._head_dim) for positions in (steps[None], num_seen + steps)
        )
        observed = memory.is_valid[:, None].expand(-1, num_steps, -1)
        earlier = (steps <= steps[:, None]).expand(len(tokens), -1, -1)
        both = torch.cat([observed, earlier], dim=-1)
        layers = zip(self.lm_expert.layers, self._readers, memory.seen, strict=True)
        for layer, reader, seen in layers:
            normed = rms_norm(tokens, layer.input_layernorm)
            if self._is_joint(reader):
                own = self._heads(layer, normed, behind)
                joined = (torch.cat(pair, dim=2) for pair in zip(seen, own, strict=True))
                queries = self._queries(layer, normed, behind)
                mixed = attention(queries, Heads(*joined), both)
            else:
                mixed = attention(self._queries(layer, normed, apart), seen, observed)
            tokens = _finished(layer, tokens, mixed)
        return rms_norm(tokens, self.lm_expert.norm)

    def _is_joint(self, reader: int) -> bool:
        return is_self_attention(reader, self._config)

    def _queries(self, layer: Any, normed: Tensor, rotation: Rotation) -> Tensor:
        return rotation(split_heads(_applied(layer.self_attn.q_proj, normed), self._head_dim))

    def _heads(self, layer: Any, normed: Tensor, rotation: Rotation) -> Heads:
        attn = layer.self_attn
        keys = split_heads(_applied(attn.k_proj, normed), self._head_dim)
        return Heads(rotation(keys), split_heads(_applied(attn.v_proj, normed), self._head_dim))


def _applied(projection: nn.Linear, tokens: Tensor) -> Tensor:
    output: Tensor = projection(tokens.to(projection.weight.dtype))
    return output


def _finished(layer: Any, hidden: Tensor, mixed: Tensor) -> Tensor:
    """What a layer makes of its input and of what attention found."""
    added = _applied(layer.self_attn.o_proj, mixed)
    # In the type of the layer's weights from here on, whatever the input was.
    hidden = (added + hidden).to(added.dtype)
    normed = rms_norm(hidden, layer.post_attention_layernorm)
    changed: Tensor = layer.mlp(normed.to(layer.mlp.gate_proj.weight.dtype))
    return (changed + hidden).to(changed.dtype)


def readers_of(config: SmolVLAConfig, num_layers: int) -> list[int]:
    """The layers of the vision-language model that the expert's layers read along with."""
    num_experts = config.num_expert_layers if config.num_expert_layers > 0 else num_layers
    flag = f"--policy.num_expert_layers={num_experts}"
    if num_layers % num_experts > 0:
        raise ConfigError([f"{flag} must divide the {num_layers} layers beside it"])
    readers = [*range(0, num_layers, num_layers // num_experts)]
    kinds = [is_self_attention(layer, config) for layer in readers]
    if kinds != [is_self_attention(layer, config) for layer in range(num_experts)]:
        raise ConfigError(
            [
                f"{flag} beside {num_layers} layers: self-attention would fall on other layers "
                f"than --policy.self_attn_every_n_layers={config.self_attn_every_n_layers} says; "
                "use -1 for as many, or --policy.attention_mode=self_attn"
            ]
        )
    return readers
