"""SmolVLA as a trainable network.

Flow matching: training mixes true actions with noise and predicts the velocity. Inference starts
from noise alone and integrates the velocity in a few Euler steps.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from manyhands.config.policies.smolvla import STATE, SmolVLAConfig
from manyhands.policies.smolvla.aloha import adapted_action, restored_action
from manyhands.policies.smolvla.layers import ExpertLayer, TextLayer, VisionLayer
from manyhands.policies.smolvla.model import SmolVLAModel, pad_vector
from manyhands.types import Batch, Draws, DrawSource, LossTerm, LossTerms

_TIME_SHAPE = 1.5  # First parameter of the Beta distribution of times; the second is 1.
_MIN_TIME = 0.001  # Times are between this and 1, which is pure noise.


class SmolVLANetwork(nn.Module):
    """SmolVLA's loss and prediction on normalized values."""

    # Layers that FSDP gathers one at a time, and submodules to compile.
    shard_units: ClassVar[tuple[type[nn.Module], ...]] = (VisionLayer, TextLayer, ExpertLayer)
    compile_units: ClassVar[tuple[type[nn.Module], ...]] = (VisionLayer, TextLayer, ExpertLayer)

    def __init__(self, config: SmolVLAConfig) -> None:
        super().__init__()
        self._config = config
        self._action_dim = config.output_features["action"].shape[0]
        self.model = SmolVLAModel(config)

    def forward(self, batch: Batch, draws: Draws) -> LossTerms:
        """Squared error of the predicted velocity."""
        action, noise, time = batch["action"], draws["noise"], draws["time"]
        action = adapted_action(action) if self._config.adapt_to_pi_aloha else action
        action = pad_vector(action, self._config.max_action_dim)
        share = time[:, None, None]
        noisy = share * noise + (1 - share) * action
        velocity = self.model.velocity(noisy, time, self.model.memory(batch))
        error = (noise - action - velocity.to(action.dtype)).square()
        error = error[..., : self._action_dim].masked_fill(batch["action_is_pad"][..., None], 0)
        return {"mse_loss": LossTerm(error.sum(), 1.0)}

    def entry_counts(self, batch: Batch) -> dict[str, Tensor]:
        """How many action values the loss sums: those that are not padding."""
        action, is_pad = batch["action"], batch["action_is_pad"]
        return {"mse_loss": (~is_pad).sum(dtype=action.dtype) * self._action_dim}

    def draw(self, source: DrawSource) -> dict[str, Tensor]:
        """Noise, then times."""
        noise = source.normal(*self._noise_shape)
        return {"noise": noise, "time": source.beta(_TIME_SHAPE) * (1 - _MIN_TIME) + _MIN_TIME}

    def predict(self, observation: Batch, draws: Draws) -> Tensor:
        """The chunk (samples, steps, action) that follows an observation."""
        # What the draws lack of `sampling_noise` (samples, steps, largest action) is drawn here.
        actions = draws.get("sampling_noise")
        if actions is None:
            state = observation[STATE]
            shape = (len(state), *self._noise_shape)
            actions = torch.randn(shape, device=state.device, dtype=state.dtype)
        memory = self.model.vlm_with_expert.prepared(self.model.memory(observation))
        num_steps = self._config.num_steps
        for number in range(num_steps):
            time = actions.new_full((len(actions),), 1 - number / num_steps)
            actions = actions - self.model.velocity(actions, time, memory) / num_steps
        chunk = actions[..., : self._action_dim]
        return restored_action(chunk) if self._config.adapt_to_pi_aloha else chunk

    def draw_sampling(self, source: DrawSource) -> dict[str, Tensor]:
        """The noise that sampling starts from."""
        return {"sampling_noise": source.normal(*self._noise_shape)}

    def vision_tokens(self, images: Tensor) -> Tensor:
        """Tokens (images, tokens, width) of normalized images of one camera."""
        return self.model.vision_tokens(images)

    def vision_parameters(self) -> dict[str, Tensor]:
        """The parameters of the image encoder and its connector."""
        return self.model.vision_parameters()

    def vision_settings(self) -> dict[str, Any]:
        """The size that images are resized to."""
        return {"size": self._config.resize_imgs_with_padding}

    def parameter_groups(self) -> list[dict[str, Any]]:
        """All parameters in one group, frozen ones included."""
        return [{"params": list(self.parameters())}]

    @property
    def _noise_shape(self) -> tuple[int, int]:
        return self._config.chunk_size, self._config.max_action_dim
