"""Forward and backward passes of a step: the gradient of the mean loss over the global batch."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from manyhands.errors import UserError
from manyhands.policies.policy import weighted_loss
from manyhands.types import Batch, Engine


class MeanGradient:
    """Adds up the gradients of this rank's micro-batches, all-reduced with the last one."""

    def __init__(
        self,
        engine: Engine,
        network: nn.Module,
        num_ranks: int,
        begin_phase: Callable[[str], None],
    ) -> None:
        """`network` is what the engine has prepared: inputs and draws in, loss terms out."""
        self._engine = engine
        self._network = network
        self._num_ranks = num_ranks
        self._begin_phase = begin_phase

    def __call__(self, batch: Batch, counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Collective. Loss and terms of this rank, whose sums over ranks are the global means.

        `counts` are the entries of each term in the global batch.
        """
        measured: list[dict[str, Tensor]] = []
        for micro_batch in self._engine.micro_batches(batch):
            self._begin_phase("forward")
            terms = self._network(micro_batch["inputs"], micro_batch["draws"])
            loss, means = weighted_loss(terms, counts)
            self._begin_phase("backward")
            # DDP averages gradients over ranks; the gradient of the global mean is their sum. That
            # of a non-finite loss may be finite: loss * 0 makes it non-finite on all ranks.
            self._engine.backward(loss * (self._num_ranks + 0 * loss.detach()))
            measured.append({"loss": loss.detach(), **means})
        return sum_of(measured)


def reject_unused_parameters(network: nn.Module) -> None:
    """Reject trainable parameters without a gradient; the error names them."""
    idle = [
        name
        for name, weight in network.named_parameters()
        if weight.requires_grad and weight.grad is None
    ]
    if idle:
        raise UserError(
            f"the loss does not depend on these trainable parameters: {', '.join(idle)}. Ranks "
            "cannot keep them in sync. Use them in the network's forward pass, or call "
            "requires_grad_(False) on them"
        )


def sum_of(measured: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The sum of the metrics of all micro-batches."""
    return {name: torch.stack([part[name] for part in measured]).sum() for name in measured[0]}
