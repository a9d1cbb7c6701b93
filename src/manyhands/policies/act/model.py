"""ACT's modules, with LeRobot's parameter names and order, and their forward functions.

Two functions: the posterior of the latent given the true actions, and the chunk of actions given an
observation and a latent. Inputs are normalized.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.base import visual_features
from manyhands.config.policies.features import FeatureType
from manyhands.lerobot_format.names import ENVIRONMENT_STATE
from manyhands.policies.act.transformer import Decoder, Encoder
from manyhands.policies.vision.resnet import ResNet
from manyhands.types import Batch


def row_code(num_positions: int, dim: int) -> Tensor:
    """Codes (positions, dim) of positions 0, 1, 2, ..."""
    return _waves(torch.arange(num_positions, dtype=torch.float64), dim).float()


def map_code(height: int, width: int, dim: int) -> Tensor:
    """Codes (height * width, dim) of a map's cells: half for the row, half for the column."""
    # One turn over the complete axis, counted from 1, whatever the size of the map.
    counts = (torch.arange(1, size + 1, dtype=torch.float64) for size in (height, width))
    angles = (2 * math.pi * count / (len(count) + 1e-6) for count in counts)
    rows, columns = (_waves(angle, dim // 2) for angle in angles)
    rows = rows[:, None].expand(height, width, -1)
    columns = columns[None].expand(height, width, -1)
    return torch.cat([rows, columns], dim=-1).flatten(0, 1).float()


def _waves(positions: Tensor, dim: int) -> Tensor:
    """Sines at even and cosines at odd places, of wavelengths that grow along the code."""
    place = torch.arange(dim)
    wavelengths = 10000.0 ** (2 * (place // 2).double() / dim)
    angles = positions[:, None] / wavelengths
    return torch.where(place % 2 == 0, angles.sin(), angles.cos())


STATE = "observation.state"


class ActModel(nn.Module):
    """A transformer from observation tokens to actions, with a variational encoder beside it."""

    vae_encoder_pos_enc: Tensor
    camera_positions: Tensor

    def __init__(self, config: ActConfig) -> None:
        super().__init__()
        self._config = config
        self._cameras = visual_features(config)
        self._has_env = any(f.type is FeatureType.ENV for f in config.input_features.values())
        dim, state_dim = config.dim_model, config.input_features[STATE].shape[0]
        action_dim = config.output_features["action"].shape[0]

        if config.use_vae:
            self._add_vae_encoder(state_dim, action_dim)
        if self._cameras:
            dilated = bool(config.replace_final_stride_with_dilation)
            self.backbone = ResNet(config.vision_backbone, dilate_last_stage=dilated)
        self.encoder = Encoder(config, config.n_encoder_layers)
        self.decoder = Decoder(config)
        self.encoder_robot_state_input_proj = nn.Linear(state_dim, dim)
        if self._has_env:
            env_dim = config.input_features[ENVIRONMENT_STATE].shape[0]
            self.encoder_env_state_input_proj = nn.Linear(env_dim, dim)
        self.encoder_latent_input_proj = nn.Linear(config.latent_dim, dim)
        if self._cameras:
            self._add_camera_tokens()
        self.encoder_1d_feature_pos_embed = nn.Embedding(3 if self._has_env else 2, dim)
        self.decoder_pos_embed = nn.Embedding(config.chunk_size, dim)
        self.action_head = nn.Linear(dim, action_dim)

        for parameter in (*self.encoder.parameters(), *self.decoder.parameters()):
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)

    def _add_vae_encoder(self, state_dim: int, action_dim: int) -> None:
        config, dim = self._config, self._config.dim_model
        self.register_buffer("vae_encoder_pos_enc", row_code(2 + config.chunk_size, dim)[None])
        self.vae_encoder = Encoder(config, config.n_vae_encoder_layers)
        self.vae_encoder_cls_embed = nn.Embedding(1, dim)
        self.vae_encoder_robot_state_input_proj = nn.Linear(state_dim, dim)
        self.vae_encoder_action_input_proj = nn.Linear(action_dim, dim)
        self.vae_encoder_latent_output_proj = nn.Linear(dim, 2 * config.latent_dim)

    def _add_camera_tokens(self) -> None:
        dim, backbone = self._config.dim_model, self.backbone
        self.encoder_img_feat_input_proj = nn.Conv2d(backbone.num_channels, dim, kernel_size=1)
        shapes = [self._config.input_features[name].shape for name in self._cameras]
        sizes = [[math.ceil(size / backbone.stride) for size in shape[1:]] for shape in shapes]
        codes = torch.cat([map_code(height, width, dim) for height, width in sizes])
        self.register_buffer("camera_positions", codes, persistent=False)

    def posterior(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Mean and log-variance (samples, latent) of the latent that the true actions suggest."""
        summary = self.vae_encoder_cls_embed.weight.expand(len(batch["action"]), 1, -1)
        state = self.vae_encoder_robot_state_input_proj(batch[STATE])[:, None]
        actions = self.vae_encoder_action_input_proj(batch["action"])
        tokens = torch.cat([summary, state, actions], dim=1)
        visible = F.pad(~batch["action_is_pad"], (2, 0), value=True)[:, None, None]

        encoded = self.vae_encoder(tokens, self.vae_encoder_pos_enc, visible, num_outputs=1)
        output = self.vae_encoder_latent_output_proj(encoded[:, 0]).to(batch["action"].dtype)
        mean, log_variance = output.chunk(2, dim=-1)
        return mean, log_variance

    def forward(self, observation: Batch, latent: Tensor | None = None) -> Tensor:
        """The chunk (samples, steps, action) for an observation and a latent, zero by default."""
        state = observation[STATE]
        if latent is None:
            latent = state.new_zeros(len(state), self._config.latent_dim)
        vectors = [
            self.encoder_latent_input_proj(latent),
            self.encoder_robot_state_input_proj(state),
        ]
        if self._has_env:
            vectors.append(self.encoder_env_state_input_proj(observation[ENVIRONMENT_STATE]))
        cells = self._camera_tokens([observation[name] for name in self._cameras])
        tokens = torch.cat([*(vector[:, None] for vector in vectors), *cells], dim=1)

        position = self.encoder_1d_feature_pos_embed.weight
        if self._cameras:
            position = torch.cat([position, self.camera_positions])
        memory = self.encoder(tokens, position)
        decoded = self.decoder(self.decoder_pos_embed.weight, memory, position)
        actions: Tensor = self.action_head(decoded)
        return actions

    def _camera_tokens(self, images: list[Tensor]) -> list[Tensor]:
        """Tokens (samples, cells, dim) per camera; cameras of one size share a backbone pass."""
        tokens: dict[int, Tensor] = {}
        for size in dict.fromkeys(image.shape for image in images):
            members = [index for index, image in enumerate(images) if image.shape == size]
            chosen = [images[index] for index in members]
            stacked = torch.cat(chosen) if len(chosen) > 1 else chosen[0]
            cells = self.backbone(stacked).flatten(2).transpose(1, 2)
            projection = self.encoder_img_feat_input_proj
            projected = F.linear(cells, projection.weight.flatten(1), projection.bias)
            tokens |= zip(members, projected.chunk(len(members)), strict=True)
        return [tokens[index] for index in range(len(images))]
