"""SmolVLA's modules, with LeRobot's parameter names, and their forward functions.

Two functions: the memory of an observation, and the velocity that takes noisy actions from noise to
data given that memory. Inputs are normalized.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands.config.policies.base import visual_features
from manyhands.config.policies.smolvla import STATE, SmolVLAConfig
from manyhands.lerobot_format.names import LANGUAGE_MASK, LANGUAGE_TOKENS
from manyhands.policies.frozen_encoder import restored
from manyhands.policies.smolvla.aloha import adapted_state
from manyhands.policies.smolvla.decoder import Prefix, PrefixCache, VlmWithExpert
from manyhands.policies.smolvla.images import PADDING_MASK, camera_images
from manyhands.policies.smolvla.vlm import image_marks
from manyhands.types import VISION_TOKENS, Batch


class SmolVLAModel(nn.Module):
    """A vision-language model with an action expert, and their input and output projections."""

    image_marks: Tensor

    def __init__(self, config: SmolVLAConfig) -> None:
        super().__init__()
        self._config = config
        self.vlm_with_expert = VlmWithExpert(config)
        width, expert_width = self.vlm_with_expert.width, self.vlm_with_expert.expert_width
        self.state_proj = nn.Linear(config.max_state_dim, width)
        self.action_in_proj = nn.Linear(config.max_action_dim, expert_width)
        self.action_out_proj = nn.Linear(expert_width, config.max_action_dim)
        self.action_time_mlp_in = nn.Linear(2 * expert_width, expert_width)
        self.action_time_mlp_out = nn.Linear(expert_width, expert_width)
        self.state_proj.requires_grad_(config.train_state_proj)
        marks = image_marks(config) if config.add_image_special_tokens else (0, 0)
        self.register_buffer("image_marks", torch.tensor(marks), persistent=False)

    def memory(self, observation: Batch) -> PrefixCache:
        """Compute the expert's memory of an observation."""
        return self.vlm_with_expert.read(self.prefix(observation))

    def velocity(self, noisy: Tensor, time: Tensor, memory: PrefixCache) -> Tensor:
        """Predict the velocity of noisy actions (samples, steps, action) at times (samples,)."""
        actions = self.action_in_proj(noisy)
        code = time_embedding(time, actions.shape[-1], self._config).to(actions.dtype)
        both = torch.cat([actions, code[:, None].expand_as(actions)], dim=-1)
        tokens = self.action_time_mlp_out(F.silu(self.action_time_mlp_in(both)))
        decoded = self.vlm_with_expert.act(tokens, memory)
        output: Tensor = self.action_out_proj(decoded.to(self.action_out_proj.weight.dtype))
        return output

    def prefix(self, observation: Batch) -> Prefix:
        """An observation as tokens: cameras, then words, then the state."""
        images, are_images = self._image_tokens(observation)
        text = self.vlm_with_expert.word_tokens(observation[LANGUAGE_TOKENS])
        text = text * math.sqrt(text.shape[-1])
        state = self.state_proj(self._state(observation))[:, None]
        is_state = torch.ones(len(state), 1, dtype=torch.bool, device=state.device)

        is_valid = torch.cat([are_images, observation[LANGUAGE_MASK], is_state], dim=1)
        return Prefix(torch.cat([images, text], dim=1), state, is_valid)

    def _state(self, observation: Batch) -> Tensor:
        state: Tensor = observation[STATE]
        state = adapted_state(state) if self._config.adapt_to_pi_aloha else state
        return pad_vector(state, self._config.max_state_dim)

    def _image_tokens(self, observation: Batch) -> tuple[Tensor, Tensor]:
        """Tokens of all cameras, one after the other, and whether each token has an image."""
        tokens, are_there = self._camera_tokens(observation)
        is_valid = are_there[..., None].expand(tokens.shape[:-1])
        if self._config.add_image_special_tokens:
            around, whole = self.vlm_with_expert.word_tokens(self.image_marks)
            before = torch.stack([around, whole]).expand(*are_there.shape, -1, -1)
            tokens = torch.cat([before, tokens, before[..., :1, :]], dim=2)
            is_valid = F.pad(is_valid, (2, 1), value=True)
        return _in_a_row(tokens), _in_a_row(is_valid)

    def _camera_tokens(self, observation: Batch) -> tuple[Tensor, Tensor]:
        """Tokens by camera and sample, and whether there is an image, by camera and sample."""
        if not any(name + VISION_TOKENS in observation for name in visual_features(self._config)):
            pixels, are_there = camera_images(observation, self._config)
            tokens = self.vlm_with_expert.image_tokens(pixels.flatten(0, 1))
            return tokens.view(*are_there.shape, *tokens.shape[1:]), are_there
        return self._given_tokens(observation)

    def _given_tokens(self, observation: Batch) -> tuple[Tensor, Tensor]:
        """The same where tokens of some cameras are given; the images of others are encoded."""
        cameras, tokens, are_there = visual_features(self._config), [], []
        for name in cameras:
            given = observation.get(name + VISION_TOKENS)
            if given is None and name not in observation:
                continue
            own = self.vision_tokens(observation[name]) if given is None else restored(given)
            mask = observation.get(name + PADDING_MASK)
            tokens.append(own)
            are_there.append(own.new_ones(len(own)).bool() if mask is None else mask.bool())
        num_empty = min(self._config.empty_cameras, len(cameras) - len(tokens))
        # No token attends to an empty camera: its values make no difference.
        tokens += [torch.zeros_like(tokens[-1])] * num_empty
        are_there += [torch.zeros_like(are_there[-1])] * num_empty
        return torch.stack(tokens), torch.stack(are_there)

    def vision_tokens(self, images: Tensor) -> Tensor:
        """Tokens (images, tokens, width) of images of one camera."""
        camera = next(iter(visual_features(self._config)))
        pictures = camera_images({camera: images}, self._config)
        return self.vlm_with_expert.image_tokens(pictures.pixels[0])

    def vision_parameters(self) -> dict[str, Tensor]:
        """All parameters that those tokens depend on, by name."""
        model = self.vlm_with_expert.vlm.model
        parts = {"vision_model": model.vision_model, "connector": model.connector}
        return {
            f"{name}.{key}": value
            for name, part in parts.items()
            for key, value in part.named_parameters()
        }


def pad_vector(values: Tensor, size: int) -> Tensor:
    """Vectors padded with zeros."""
    return F.pad(values, (0, size - values.shape[-1]))


def time_embedding(time: Tensor, size: int, config: SmolVLAConfig) -> Tensor:
    """Times (samples,) as sines of many periods, then cosines."""
    # Short periods turn often between 0 and 1: single precision would resolve times less well.
    kind = torch.float32 if time.device.type == "mps" else torch.float64
    places = torch.linspace(0, 1, size // 2, dtype=kind, device=time.device)
    periods = config.min_period * (config.max_period / config.min_period) ** places
    angles = time[:, None] * (2 * math.pi / periods)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def _in_a_row(values: Tensor) -> Tensor:
    """Rearrange (cameras, samples, tokens, ...) by sample and token."""
    return values.transpose(0, 1).flatten(1, 2)
