"""Loss scaling for fp16, in which small gradients would be rounded to zero.

The scale follows torch's GradScaler: halved after an overflow, doubled after many steps without.
The global gradient norm, which every rank has, is non-finite after an overflow: ranks with shards
agree on the scale without another collective, and no rank synchronizes with its device.
"""

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor
from torch.optim import Optimizer

from manyhands.parallel.optimizer_step import clip_and_step


class LossScale:
    """The factor of losses; one in precisions that need no scaling."""

    def __init__(self, scaler: torch.amp.GradScaler | None, device: torch.device) -> None:
        # A copy: engines must not change the scale of each other.
        self._scaler = deepcopy(scaler)
        if self._scaler is not None:
            # By default it creates its tensors in the first step, which may be captured.
            self._scaler._lazy_init_scale_growth_tracker(device)

    @property
    def is_used(self) -> bool:
        """Whether losses are scaled."""
        return self._scaler is not None

    @property
    def tensors(self) -> Sequence[Tensor]:
        """The scale and the steps since it last changed; none without scaling."""
        scaler = self._scaler
        known = () if scaler is None else (scaler._scale, scaler._growth_tracker)
        return [each for each in known if each is not None]

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a scaled loss."""
        torch.autograd.backward(loss if self._scaler is None else self._scaler.scale(loss))

    def step(self, optimizer: Optimizer, scaled_norm: Tensor, max_norm: float) -> Tensor:
        """Run an optimizer step on scaled gradients; return their unscaled norm."""
        if self._scaler is None:
            clip_and_step(optimizer, scaled_norm, max_norm)
            return scaled_norm
        scale, num_good_steps = self.tensors
        norm = scaled_norm / scale
        clip_and_step(optimizer, norm, max_norm, scale)
        torch._amp_update_scale_(
            scale,
            num_good_steps,
            (~norm.isfinite()).float(),
            self._scaler.get_growth_factor(),
            self._scaler.get_backoff_factor(),
            self._scaler.get_growth_interval(),
        )
        return norm

    def state_dict(self) -> dict[str, float]:
        """The state of torch's GradScaler; empty without scaling."""
        return dict(self._scaler.state_dict()) if self._scaler is not None else {}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Continue with a saved scale, where one was saved and one is used."""
        if self._scaler is not None and state:
            self._scaler.load_state_dict(state)
