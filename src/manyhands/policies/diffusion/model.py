"""Diffusion Policy's modules, with LeRobot's parameter names and order, and their forward.

The observation becomes one vector; given that vector, a U-Net predicts the noise. Inputs are
normalized.
"""

import torch
from torch import Tensor, nn

from manyhands.config.policies.base import visual_features
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.features import FeatureType
from manyhands.lerobot_format.names import ENVIRONMENT_STATE
from manyhands.policies.diffusion.encoder import ImageEncoder
from manyhands.policies.diffusion.sampler import Denoise
from manyhands.policies.diffusion.unet import UNet
from manyhands.types import Batch

STATE = "observation.state"


class DiffusionModel(nn.Module):
    """Image encoders and a U-Net."""

    rgb_encoder: nn.ModuleList | ImageEncoder

    def __init__(self, config: DiffusionConfig) -> None:
        super().__init__()
        inputs = config.input_features
        self._cameras = visual_features(config)
        self._has_env = any(feature.type is FeatureType.ENV for feature in inputs.values())
        step_dim = inputs[STATE].shape[0]
        if self._has_env:
            step_dim += inputs[ENVIRONMENT_STATE].shape[0]
        if self._cameras:
            shape = inputs[self._cameras[0]].shape
            if config.use_separate_rgb_encoder_per_camera:
                self.rgb_encoder = nn.ModuleList(ImageEncoder(config, shape) for _ in self._cameras)
            else:
                self.rgb_encoder = ImageEncoder(config, shape)
            step_dim += len(self._cameras) * 2 * config.spatial_softmax_num_keypoints
        action_dim = config.output_features["action"].shape[0]
        self.unet = UNet(config, action_dim, config.n_obs_steps * step_dim)

    def forward(
        self, noisy: Tensor, timesteps: Tensor, observation: Batch, corners: Tensor | None
    ) -> Tensor:
        """The U-Net's output (rows, steps, action) for noisy actions, as many rows per sample."""
        # `corners` (samples, encoders, 2) are the top left ones of the crops, else in the center.
        observed = self._observed(observation, corners)
        num_draws = len(noisy) // len(observed)
        if num_draws > 1:
            observed = observed.repeat_interleave(num_draws, dim=0)
        output: Tensor = self.unet(noisy, timesteps, observed)
        return output

    def denoiser(self, timesteps: Tensor, observation: Batch) -> Denoise:
        """The U-Net for one observation, whose images are cropped in the center."""
        return self.unet.denoiser(timesteps, self._observed(observation, None))

    def _observed(self, observation: Batch, corners: Tensor | None) -> Tensor:
        """All that is observed (samples, values), the latest step last."""
        images = [observation[name] for name in self._cameras]
        parts = [observation[STATE], *self._camera_features(images, corners)]
        if self._has_env:
            parts.append(observation[ENVIRONMENT_STATE])
        return torch.cat(parts, dim=-1).flatten(1)

    def _camera_features(self, images: list[Tensor], corners: Tensor | None) -> list[Tensor]:
        """Features (samples, steps, values) of each camera's (samples, steps, 3, height, width)."""
        if not images:
            return []
        if isinstance(self.rgb_encoder, ImageEncoder):
            encoder = self.rgb_encoder
            prepared = [_prepared(encoder, each, corners, 0) for each in images]
            features = encoder(torch.cat(prepared)).chunk(len(images))
        else:
            features = tuple(
                encoder(_prepared(encoder, each, corners, number))
                for number, (encoder, each) in enumerate(zip(self.rgb_encoder, images, strict=True))
            )
        return [each.unflatten(0, images[0].shape[:2]) for each in features]


def _prepared(encoder: nn.Module, images: Tensor, corners: Tensor | None, number: int) -> Tensor:
    """A camera's images of all samples and steps, as the encoder of this number sees them."""
    assert isinstance(encoder, ImageEncoder)
    if corners is not None:
        # All steps of a sample are cropped alike.
        corners = corners[:, number, None].expand(-1, images.shape[1], -1).flatten(0, 1)
    return encoder.prepare(images.flatten(0, 1), corners)
