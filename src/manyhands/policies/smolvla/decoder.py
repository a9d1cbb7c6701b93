"""Two stacks of layers side by side: the vision-language model reads, the action expert acts.

The observation (prefix) never attends to the actions. So it is read once, and each of its layers
leaves keys and values behind: the memory, to which the expert's layers then attend. Training and
every step of acting are the same two functions.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.errors import ConfigError
from manyhands.policies.activation_checkpointing import checkpointed
from manyhands.policies.smolvla.attention import (
    Attention,
    EagerAttention,
    FusedAttention,
    Heads,
    rms_norm,
    rotary_embedding,
    weight_dtype,
)
from manyhands.policies.smolvla.images import encoded, patch_places
from manyhands.policies.smolvla.layers import AttentionContext, ExpertLayer, TextLayer, VisionLayer
from manyhands.policies.smolvla.vlm import (
    build_expert,
    build_vlm,
    is_self_attention,
    read_vlm_config,
    text_model_of,
)


class Prefix(NamedTuple):
    """The observation as tokens."""

    tokens: Tensor
    """(samples, tokens, width), of images and words, which do not attend to the state."""
    state: Tensor  # (samples, 1, width), which attends to all.
    is_valid: Tensor  # (samples, tokens and state), False for padding.


class PrefixCache(NamedTuple):
    """Keys and values of a prefix for the expert."""

    seen: list[Heads]  # By layer of the expert.
    is_valid: Tensor  # (samples, tokens), False for padding.


class VlmWithExpert(nn.Module):
    """The vision-language model and its action expert, under LeRobot's names."""

    patch_places: Tensor

    def __init__(self, config: SmolVLAConfig) -> None:
        super().__init__()
        found = read_vlm_config(config)
        self._config = config
        self.vlm: Any = build_vlm(found, config)
        self.lm_expert: Any = build_expert(found, config)
        text = found.text_config
        self.width: int = text.hidden_size
        self.expert_width: int = self.lm_expert.config.hidden_size
        self._head_dim: int = text.head_dim
        self._readers = vlm_layers(config, text.num_hidden_layers)
        num_shared = text.num_attention_heads // text.num_key_value_heads
        self._attention: Attention = (
            EagerAttention() if config.exact else FusedAttention(num_shared)
        )
        self._take_layers()
        self._freeze()
        if not config.exact:
            # Rounding must not lose small updates.
            for weight in (each for each in self.parameters() if each.requires_grad):
                weight.data = weight.data.float()
        places = patch_places(self._vision, config.resize_imgs_with_padding[0])
        self.register_buffer("patch_places", places, persistent=False)

    def _take_layers(self) -> None:
        """Replace transformers' layers by ones that are called with all their inputs."""
        last, attention = self._readers[-1], self._attention
        vision, text, expert = self._vision.encoder, self._text, self.lm_expert
        vision.layers = nn.ModuleList(VisionLayer(layer) for layer in vision.layers)
        text.layers = nn.ModuleList(
            TextLayer(layer, attention, is_last=index == last)
            for index, layer in enumerate(text.layers)
        )
        expert.layers = nn.ModuleList(
            ExpertLayer(layer, attention, is_self_attention(reader, self._config))
            for layer, reader in zip(expert.layers, self._readers, strict=True)
        )

    def _freeze(self) -> None:
        idle = [self.vlm.lm_head, self._text.norm, *self._text.layers[self._readers[-1] :]]
        frozen = [self.vlm] if self._config.train_expert_only else []
        if self._config.freeze_vision_encoder:
            frozen.append(self._vision)
        for module in (*frozen, *idle):
            module.requires_grad_(False)
        self._frozen = frozen

    def train(self, mode: bool = True) -> "VlmWithExpert":
        """Switch modes; frozen modules stay in evaluation mode."""
        super().train(mode)
        for module in self._frozen:
            module.eval()
        return self

    @property
    def _text(self) -> Any:
        return text_model_of(self.vlm)

    @property
    def _vision(self) -> Any:
        return self.vlm.model.vision_model

    def image_tokens(self, pixels: Tensor) -> Tensor:
        """Tokens (images, tokens, width) of images from -1 to 1."""
        features = encoded(self._vision, pixels, self.patch_places)
        tokens: Tensor = self.vlm.model.connector(features)
        # As a tensor of their type: LeRobot rounds the factor too.
        return tokens * tokens.new_full((), math.sqrt(self.width))

    def word_tokens(self, words: Tensor) -> Tensor:
        """Tokens (..., width) of numbers of words, not scaled."""
        tokens: Tensor = self._text.embed_tokens(words)
        return tokens

    def read(self, prefix: Prefix) -> PrefixCache:
        """Compute keys and values of a prefix for the expert."""
        # Only the state needs gradients; without any, one pass is faster.
        is_whole = self._config.exact or not torch.is_grad_enabled()
        read = self._read_at_once if is_whole else self._read_apart
        seen, is_valid = read(prefix)
        return PrefixCache([seen[reader] for reader in self._readers], is_valid)

    def _read_apart(self, prefix: Prefix) -> tuple[list[Heads], Tensor]:
        """First the tokens without the state, then the state."""
        is_valid, visible = prefix.is_valid, prefix.is_valid[:, None]
        positions = is_valid.long().cumsum(dim=1) - 1
        first = self._through(prefix.tokens, positions[:, :-1], visible[..., :-1])
        return self._through(prefix.state, positions[:, -1:], visible, first), is_valid

    def _read_at_once(self, prefix: Prefix) -> tuple[list[Heads], Tensor]:
        """All tokens in one pass, and padding behind them, as LeRobot has it."""
        num_observed = prefix.tokens.shape[1]
        tokens = torch.cat([prefix.tokens, prefix.state], dim=1)
        num_more = max(0, self._config.prefix_length - tokens.shape[1])
        tokens = F.pad(tokens, (0, 0, 0, num_more))
        is_valid = F.pad(prefix.is_valid, (0, num_more))
        is_late = torch.arange(tokens.shape[1], device=tokens.device) >= num_observed
        visible = is_valid[:, None] & (is_late[:, None] | ~is_late)
        positions = is_valid.long().cumsum(dim=1) - 1
        return self._through(tokens, positions, visible), is_valid

    def _through(
        self,
        hidden: Tensor,
        positions: Tensor,
        visible: Tensor,
        before: list[Heads] | None = None,
    ) -> list[Heads]:
        """Keys and values of every layer that counts, also of tokens that went through before."""
        layers = self._text.layers[: self._readers[-1] + 1]
        sight = self._sight(layers[0], positions, visible)
        seen: list[Heads] = []
        for index, layer in enumerate(layers):
            hidden, heads = self._run(layer, hidden, sight, before[index] if before else None)
            seen.append(heads)
        return seen

    def prepared(self, memory: PrefixCache) -> PrefixCache:
        """The memory for many steps: keys and values are projected for the expert only once."""
        pairs = zip(self.lm_expert.layers, memory.seen, strict=True)
        seen = [heads if layer.is_joint else layer.translated(heads) for layer, heads in pairs]
        return memory._replace(seen=seen)

    def act(self, tokens: Tensor, memory: PrefixCache) -> Tensor:
        """Run the expert on action tokens (samples, steps, width) with causal attention."""
        num_steps, layers = tokens.shape[1], self.lm_expert.layers
        steps = torch.arange(num_steps, device=tokens.device)
        num_seen = memory.is_valid.sum(dim=1, keepdim=True)
        observed = memory.is_valid[:, None]
        earlier = (steps <= steps[:, None]).expand(len(tokens), -1, -1)
        both = torch.cat([observed.expand(-1, num_steps, -1), earlier], dim=-1)
        apart = self._sight(layers[0], steps[None], observed)
        joint = self._sight(layers[0], num_seen + steps, both)
        for layer, seen in zip(layers, memory.seen, strict=True):
            tokens = self._run(layer, tokens, seen, joint if layer.is_joint else apart)
        return rms_norm(tokens, self.lm_expert.norm)

    def _run(self, layer: nn.Module, *inputs: Any) -> Any:
        is_recomputed = self._config.gradient_checkpointing and torch.is_grad_enabled()
        return checkpointed(layer, *inputs) if is_recomputed else layer(*inputs)

    def _sight(self, layer: Any, positions: Tensor, visible: Tensor) -> AttentionContext:
        """Rotations and masks of a stack of layers for tokens at positions (samples, tokens)."""
        kind = weight_dtype(layer.self_attn.q_proj.weight)
        mask = self._attention.mask(visible, kind)
        return AttentionContext(rotary_embedding(positions, self._head_dim), mask)


def vlm_layers(config: SmolVLAConfig, num_layers: int) -> list[int]:
    """The layers of the vision-language model that the expert's layers attend to."""
    num_experts = config.num_expert_layers if config.num_expert_layers > 0 else num_layers
    flag = f"--policy.num_expert_layers={num_experts}"
    if num_layers % num_experts > 0:
        raise ConfigError(f"{flag} must divide the {num_layers} VLM layers")
    readers = [*range(0, num_layers, num_layers // num_experts)]
    kinds = [is_self_attention(layer, config) for layer in readers]
    if kinds != [is_self_attention(layer, config) for layer in range(num_experts)]:
        raise ConfigError(
            f"{flag} with {num_layers} VLM layers moves self-attention off "
            f"--policy.self_attn_every_n_layers={config.self_attn_every_n_layers}. "
            "Set --policy.num_expert_layers=-1, or --policy.attention_mode=self_attn"
        )
    return readers
