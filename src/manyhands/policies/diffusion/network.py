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
        noise, timesteps = draws["noise"], draws["timesteps"]
        action = self._per_draw(batch["action"])
        signal_amount = self.signal_amounts[timesteps][..., None, None]
        noise_amount = self.noise_amounts[timesteps][..., None, None]
        noisy = signal_amount * action + noise_amount * noise
        corners = draws["crop"] if self._crops_at_random else None
        rows = noisy.flatten(0, -3)
        prediction = self.diffusion(rows, timesteps.flatten(), batch, corners).view(noisy.shape)

        target = noise if self._config.prediction_type == "epsilon" else action
        error = (prediction.to(target.dtype) - target).square()
        if self._config.do_mask_loss_for_padding:
            error = error.masked_fill(self._per_draw(batch["action_is_pad"])[..., None], 0)
        return {"mse_loss": LossTerm(error.sum(), 1.0)}

    def entry_counts(self, batch: Batch) -> dict[str, Tensor]:
        """How many action values the loss sums: all, or those that are not padding."""
        action, is_pad = batch["action"], batch["action_is_pad"]
        num_draws = self._config.noise_draws_per_sample
        if self._config.do_mask_loss_for_padding:
            num_actions = (~is_pad).sum(dtype=action.dtype)
            return {"mse_loss": num_actions * (action.shape[-1] * num_draws)}
        return {"mse_loss": action.new_full((), action.numel() * num_draws)}

    def draw(self, source: DrawSource) -> dict[str, Tensor]:
        """Crops of each encoder, then noise, then timesteps."""
        draws = {}
        if self._crops_at_random:
            places = source if self._config.crop_per_sample else source.common
            corners = [
                torch.stack([places.integers(most + 1) for most in room], dim=-1)
                for room in self._crop_rooms
            ]
            draws["crop"] = torch.stack(corners, dim=1).expand(source.num_samples, -1, -1)
        count = self._config.noise_draws_per_sample
        per_sample = () if count == 1 else (count,)
        draws["noise"] = source.normal(*per_sample, *self._action_shape)
        timesteps = source.integers(self._config.num_train_timesteps, *per_sample)
        draws["timesteps"] = self._stratified(timesteps)
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

    def _stratified(self, timesteps: Tensor) -> Tensor:
        """Uniform timesteps of which each draw of a sample has its own part of the range."""
        count, end = self._config.noise_draws_per_sample, self._config.num_train_timesteps
        if count == 1:
            return timesteps
        return (torch.arange(count, device=timesteps.device) * end + timesteps) // count

    def _per_draw(self, values: Tensor) -> Tensor:
        """Values of samples, in a shape that broadcasts over the draws of each."""
        return values if self._config.noise_draws_per_sample == 1 else values[:, None]

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
