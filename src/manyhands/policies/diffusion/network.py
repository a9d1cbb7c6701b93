"""Diffusion Policy as a trainable network.

Training adds noise of a random timestep to the true actions and asks what was added, or what was
there before. Acting starts from noise alone and takes it away step by step.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from manyhands.config.policies.base import visual_features
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.policies.diffusion.encoder import ImageEncoder, crop_margin
from manyhands.policies.diffusion.model import DiffusionModel
from manyhands.policies.diffusion.residual_block import ResidualBlock
from manyhands.policies.diffusion.sampler import Sampler, alpha_bars
from manyhands.policies.diffusion.unet import UNet
from manyhands.types import Batch, Draws, DrawSource, LossTerm, LossTerms


class DiffusionNetwork(nn.Module):
    """Diffusion Policy's loss and prediction on normalized values."""

    # Layers that FSDP gathers one at a time, and submodules to compile.
    shard_units: ClassVar[tuple[type[nn.Module], ...]] = (ResidualBlock, ImageEncoder)
    compile_units: ClassVar[tuple[type[nn.Module], ...]] = (UNet, ImageEncoder)

    signal_amounts: Tensor
    noise_amounts: Tensor
    denoising_timesteps: Tensor

    def __init__(self, config: DiffusionConfig) -> None:
        super().__init__()
        self._config = config
        self._crop_rooms = _crop_rooms(config)
        self._sampler = Sampler(config)
        self.diffusion = DiffusionModel(config)

        left = torch.tensor(alpha_bars(config))
        timesteps = torch.tensor([step.timestep for step in self._sampler.steps])
        self.register_buffer("signal_amounts", left.sqrt(), persistent=False)
        self.register_buffer("noise_amounts", (1 - left).sqrt(), persistent=False)
        self.register_buffer("denoising_timesteps", timesteps, persistent=False)

    def forward(self, batch: Batch, draws: Draws) -> LossTerms:
        """Squared error of what is predicted for noisy actions."""
        action, noise, timesteps = batch["action"], draws["noise"], draws["timesteps"]
        signal_amount = self.signal_amounts[timesteps, None, None]
        noise_amount = self.noise_amounts[timesteps, None, None]
        noisy = signal_amount * action + noise_amount * noise
        corners = draws["crop"] if self._crops_at_random else None
        prediction = self.diffusion(noisy, timesteps, batch, corners)

        target = noise if self._config.prediction_type == "epsilon" else action
        error = (prediction.to(target.dtype) - target).square()
        if self._config.do_mask_loss_for_padding:
            error = error.masked_fill(batch["action_is_pad"][..., None], 0)
        return {"mse_loss": LossTerm(error.sum(), 1.0)}

    def entry_counts(self, batch: Batch) -> dict[str, Tensor]:
        """How many action values the loss sums: all, or those that are not padding."""
        action, is_pad = batch["action"], batch["action_is_pad"]
        if self._config.do_mask_loss_for_padding:
            return {"mse_loss": (~is_pad).sum(dtype=action.dtype) * action.shape[-1]}
        return {"mse_loss": action.new_full((), action.numel())}

    def draw(self, source: DrawSource) -> dict[str, Tensor]:
        """Crops, shared by all samples of an encoder, then noise, then timesteps."""
        draws = {}
        if self._crops_at_random:
            common = source.common
            rooms = ([common.integers(most + 1) for most in room] for room in self._crop_rooms)
            corners = torch.stack([torch.cat(room) for room in rooms])
            draws["crop"] = corners.expand(source.num_samples, -1, -1)
        draws["noise"] = source.normal(*self._action_shape)
        draws["timesteps"] = source.integers(self._config.num_train_timesteps)
        return draws

    def predict(self, observation: Batch, draws: Draws) -> Tensor:
        """The chunk (samples, steps, action) that follows the latest of the observations."""
        # What the draws lack of `sampling_noise` (samples, horizon, action) and, for DDPM,
        # `step_noise` (samples, denoising steps - 1, horizon, action) is drawn here.
        denoise = self.diffusion.denoiser(self.denoising_timesteps, observation)
        start = draws.get("sampling_noise")
        if start is None:
            shape = (len(observation["observation.state"]), *self._action_shape)
            start = torch.randn(
                shape, device=self.noise_amounts.device, dtype=self.noise_amounts.dtype
            )
        actions = self._sampler.sample(denoise, start, draws.get("step_noise"))
        first = self._config.n_obs_steps - 1
        return actions[:, first : first + self._config.n_action_steps]

    def draw_sampling(self, source: DrawSource) -> dict[str, Tensor]:
        """The noise that sampling starts from, then that of every denoising step but the last."""
        draws = {"sampling_noise": source.normal(*self._action_shape)}
        if self._config.noise_scheduler_type == "DDPM":
            num_steps = len(self.denoising_timesteps) - 1
            draws["step_noise"] = source.normal(num_steps, *self._action_shape)
        return draws

    def parameter_groups(self) -> list[dict[str, Any]]:
        """All parameters alike."""
        return [{"params": list(self.parameters())}]

    @property
    def _crops_at_random(self) -> bool:
        return self.training and bool(self._crop_rooms)

    @property
    def _action_shape(self) -> tuple[int, ...]:
        return (self._config.horizon, *self._config.output_features["action"].shape)


def _crop_rooms(config: DiffusionConfig) -> list[tuple[int, int]]:
    """How far each encoder's random crop may lie from the top left; empty where none is random."""
    cameras = visual_features(config)
    if not cameras or not config.crop_is_random:
        return []
    room = crop_margin(config, config.input_features[cameras[0]].shape)
    num_encoders = len(cameras) if config.use_separate_rgb_encoder_per_camera else 1
    return [room] * num_encoders if any(room) else []
