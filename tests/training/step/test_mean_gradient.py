"""The gradient of the mean over a global batch, from the batches of its ranks."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from manyhands.errors import UserError
from manyhands.observe.phases import HostPhases
from manyhands.parallel.accelerate_engine import micro_batch
from manyhands.training.step.mean_gradient import MeanGradient, reject_unused_parameters
from manyhands.types import Batch, LossTerm, LossTerms


class Net(nn.Module):
    """Sums the errors of a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 1, bias=False)

    def forward(self, batch: Batch, draws: Batch) -> LossTerms:
        return {"mse": LossTerm(self.linear(batch["x"]).square().sum(), 1.0)}


class Micro:
    """An engine of one process with several micro-batches."""

    def __init__(self, number: int) -> None:
        self._number = number

    def micro_batches(self, batch: Batch) -> Iterator[Batch]:
        return (micro_batch(batch, place, self._number) for place in range(self._number))

    def backward(self, loss: Tensor) -> None:
        loss.backward()


@pytest.mark.parametrize("num_micro_batches", [1, 2, 3])
def test_ranks_with_uneven_batches_add_up_to_the_mean_over_all(num_micro_batches):
    inputs = torch.linspace(-1, 1, 14).view(7, 2)
    network = Net()
    network.linear(inputs).square().mean().backward()
    expected = network.linear.weight.grad.clone()
    network.zero_grad()
    losses = []
    for own in (slice(0, 5), slice(5, 7)):
        compute = MeanGradient(Micro(num_micro_batches), network, 2, HostPhases().begin)
        batch = {"inputs": {"x": inputs[own]}, "draws": {}}
        losses.append(compute(batch, {"mse": torch.tensor(7.0)})["loss"])
    # All-reduce takes the mean over two ranks.
    torch.testing.assert_close(network.linear.weight.grad / 2, expected)
    torch.testing.assert_close(sum(losses), network.linear(inputs).square().mean().detach())


def test_a_parameter_that_the_loss_does_not_use_is_named():
    network = nn.ModuleDict({"used": nn.Linear(1, 1), "idle": nn.Linear(1, 1)})
    network["used"](torch.ones(1)).sum().backward()
    with pytest.raises(UserError, match=r"idle\.weight, idle\.bias"):
        reject_unused_parameters(network)
