"""The engine of single-process and DDP runs, driven by Accelerate."""

import warnings
from collections.abc import Iterator
from contextlib import nullcontext

from torch import Tensor, nn
from torch.optim import Optimizer

from manyhands.parallel.world import World
from manyhands.types import Batch


class AcceleratedEngine:
    """Spreads updates over ranks that each hold the whole network."""

    def __init__(self, world: World, num_micro_batches: int) -> None:
        self._accelerator = world.accelerator
        self._num_micro_batches = num_micro_batches
        self._wrapped: nn.Module = nn.Identity()

    def prepare(self, network: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """The network and optimizer to train with; the ones given keep the weights."""
        with warnings.catch_warnings():
            # The newest torch renames broadcast_buffers, which older ones still need.
            warnings.simplefilter("ignore", FutureWarning)
            self._wrapped, prepared = self._accelerator.prepare(network, optimizer)
        return self._wrapped, prepared

    def micro_batches(self, batch: Batch) -> Iterator[Batch]:
        """The parts of this rank's batch; gradients are shared when the last one is done."""
        for number in range(1, self._num_micro_batches + 1):
            last = number == self._num_micro_batches
            # The consumer's forward and backward run while this generator is suspended in here.
            with nullcontext() if last else self._accelerator.no_sync(self._wrapped):
                yield part_of(batch, number - 1, self._num_micro_batches)

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss."""
        self._accelerator.backward(loss)

    def clip_gradients(self, max_norm: float) -> Tensor:
        """Limit the global gradient norm and return it as it was; zero only measures."""
        limit = max_norm if max_norm > 0 else float("inf")
        norm: Tensor = self._accelerator.clip_grad_norm_(self._wrapped.parameters(), limit).detach()
        if self._accelerator.scaler is None:
            return norm
        # The loss scaler answers an overflow by skipping the update: there is no gradient then.
        return norm.nan_to_num(nan=0.0, posinf=0.0)

    def scaler_state(self) -> dict[str, float]:
        """State of the fp16 loss scaler; empty in other precisions."""
        scaler = self._accelerator.scaler
        return dict(scaler.state_dict()) if scaler is not None else {}

    def load_scaler_state(self, state: dict[str, float]) -> None:
        """Continue with a saved loss scale."""
        if self._accelerator.scaler is not None and state:
            self._accelerator.scaler.load_state_dict(state)


def part_of(batch: Batch, number: int, num_parts: int) -> Batch:
    """One of equal parts of a batch, nested dictionaries included."""
    if num_parts == 1:
        return batch

    def cut(value: object) -> object:
        if isinstance(value, dict):
            return {key: cut(inner) for key, inner in value.items()}
        if isinstance(value, Tensor | list):
            size = len(value) // num_parts
            return value[number * size : (number + 1) * size]
        return value

    return {key: cut(value) for key, value in batch.items()}
