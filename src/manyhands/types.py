"""Types and protocols between packages: batches, draws, loss terms, networks, engines."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

Batch = dict[str, Any]
"""Tensors by LeRobot key with a leading sample axis; `task` is a list of strings."""

VISION_TOKENS = ".tokens"
"""Suffix of the key of cached vision tokens, which replace the images of a camera."""

Draws = Mapping[str, Tensor]
"""Random numbers by name, made outside the network so that its forward is a pure function."""

Stats = dict[str, dict[str, np.ndarray]]
"""Statistics by feature and name (`mean`, `std`, `min`, `max`, `count`, `q01`, ...)."""


class LossTerm(NamedTuple):
    """One term of the loss: `weight` times the mean over the entries summed in `total`."""

    total: Tensor
    weight: float


LossTerms = dict[str, LossTerm]


class DrawSource(Protocol):
    """Random numbers for the samples of a batch; each call draws new ones, one row per sample."""

    @property
    def num_samples(self) -> int:
        """Samples to draw for."""

    @property
    def common(self) -> "DrawSource":
        """A source of one row, the same for all samples of the global batch."""

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers (samples, *shape)."""

    def uniform(self, *shape: int) -> Tensor:
        """Numbers (samples, *shape) in [0, 1)."""

    def integers(self, high: int, *shape: int) -> Tensor:
        """Integers (samples, *shape) in [0, high)."""

    def beta(self, alpha: float) -> Tensor:
        """Numbers (samples,) of the distribution Beta(alpha, 1), alpha a multiple of 0.5."""


class Network(Protocol):
    """The interface of a policy's `nn.Module`; inputs are normalized, names are LeRobot's."""

    def __call__(self, batch: Batch, draws: Draws) -> LossTerms: ...

    def entry_counts(self, batch: Batch) -> dict[str, Tensor]:
        """The number of entries of each loss term; depends on the batch alone."""

    def draw(self, source: DrawSource) -> dict[str, Tensor]:
        """The random numbers of one training forward, one row per sample, in LeRobot's order."""

    def predict(self, observation: Batch, draws: Draws) -> Tensor:
        """A normalized action chunk (samples, steps, action)."""

    def draw_sampling(self, source: DrawSource) -> dict[str, Tensor]:
        """The random numbers of one prediction; a network without this method draws none."""

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Parameter groups with their optimizer settings."""


@runtime_checkable
class VisionEncoder(Protocol):
    """A network that encodes each image separately, so that its tokens can be cached."""

    def vision_tokens(self, images: Tensor) -> Tensor:
        """Tokens (images, tokens, width) of normalized images of one camera."""

    def vision_parameters(self) -> dict[str, Tensor]:
        """All parameters that those tokens depend on, by name."""

    def vision_settings(self) -> dict[str, Any]:
        """All other settings that those tokens depend on."""


class Policy(Protocol):
    """A network with its processors: raw values in, raw values out."""

    network: nn.Module

    def training_loss(
        self, batch: Batch, draws: Draws | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]: ...

    def predict_action_chunk(self, observation: Batch, draws: Draws | None = None) -> Tensor: ...

    def select_action(self, observation: Batch) -> Tensor: ...

    def reset(self) -> None: ...

    def save(self, folder: Path) -> None: ...


class Engine(Protocol):
    """Runs a training step on devices."""

    scales_losses: bool
    """Whether a loss scaler is used, with which an occasional overflow is no fault."""

    @property
    def changed(self) -> Sequence[Tensor]:
        """Tensors that a step changes besides weights and optimizer state."""

    def prepare(self, network: nn.Module) -> nn.Module:
        """The wrapped network; the given one keeps the weights, which may be replaced."""

    def micro_batches(self, batch: Batch) -> Iterator[Batch]:
        """The micro-batches of this rank; the last one synchronizes gradients."""

    def backward(self, loss: Tensor) -> None: ...

    def step(self, optimizer: Optimizer, max_norm: float) -> Tensor:
        """Clip gradients to a global norm and update the weights; return the norm before clipping.

        A `max_norm` of zero does not clip. A non-finite norm changes nothing.
        """

    def scaler_state(self) -> dict[str, float]:
        """State of the loss scaler; empty where there is none."""

    def load_scaler_state(self, state: dict[str, float]) -> None: ...
