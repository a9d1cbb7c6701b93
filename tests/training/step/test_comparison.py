"""A captured step is compared with an eager one, tensor by tensor where kernels differ."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from manyhands.parallel.optimizer_step import tensors_of
from manyhands.training.step.comparison import ROUNDING, Comparison
from manyhands.training.step.state_backup import StateBackup
from manyhands.training.step.train_step import StepInputs, StepMetrics

INPUTS = StepInputs({"x": torch.linspace(-1, 1, 24).view(4, 6)}, {})
Change = Callable[[nn.Module], None]


class Setting:
    """A small network whose first layer has little to do with the size of the whole gradient."""

    def __init__(self, optimizer: type[torch.optim.Optimizer]) -> None:
        torch.manual_seed(0)
        self.network = nn.Sequential(
            nn.Linear(6, 2), nn.Dropout(0.1), nn.Linear(2, 64), nn.Linear(64, 64)
        )
        self.optimizer = optimizer(self.network.parameters(), lr=1e-3)
        self.before = StateBackup(lambda: tensors_of(self.optimizer))

    def step(self, change: Change = lambda network: None) -> StepMetrics:
        loss = self.network(INPUTS.batch["x"]).square().sum()
        loss.backward()
        change(self.network)
        norm = nn.utils.get_total_norm([each.grad for each in self.network.parameters()])
        self.optimizer.step()
        self.optimizer.zero_grad()
        return StepMetrics({"loss": loss.detach()}, norm, ~norm.isfinite())

    def fault(self, mode: str, change: Change) -> str | None:
        self.step()  # What an optimizer remembers is there from its first step on.
        torch.manual_seed(7)
        comparison = Comparison(lambda inputs: self.step(), INPUTS, self.before, mode)
        self.before.restore()
        torch.manual_seed(7)
        return comparison.fault(self.step(change))


def gradient(network: nn.Module, name: str) -> Tensor:
    found = network.get_parameter(name).grad
    assert found is not None
    return found


def round_to_bf16(network: nn.Module) -> None:
    for weight in network.parameters():
        assert weight.grad is not None
        weight.grad.copy_(weight.grad.bfloat16())


def spoil_a_small_layer(network: nn.Module) -> None:
    gradient(network, "0.bias").mul_(0.85)


def spoil_a_row(network: nn.Module) -> None:
    gradient(network, "3.weight")[0] += 100


@pytest.mark.parametrize("mode", ["graph", "compile"])
@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
def test_the_same_step_agrees(optimizer, mode):
    assert Setting(optimizer).fault(mode, lambda network: None) is None


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
def test_fused_kernels_may_round_otherwise(optimizer):
    assert Setting(optimizer).fault("compile", round_to_bf16) is None


def test_a_graph_of_the_same_kernels_may_not():
    assert "differs by" in str(Setting(torch.optim.AdamW).fault("graph", round_to_bf16))


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
def test_one_wrong_layer_is_found_though_all_others_are_right(optimizer):
    found = Setting(optimizer).fault("compile", spoil_a_small_layer)
    assert found is not None and "the gradient of parameter 1 differs" in found


def test_a_wrong_gradient_is_found_by_its_size():
    found = Setting(torch.optim.AdamW).fault("compile", spoil_a_row)
    assert found is not None and found.startswith("the gradient")


class Sensitive(nn.Module):
    """Differences of nearly equal numbers: noise in the weights moves the gradient by 0.3."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(64) + 0.5)
        self.register_buffer("target", self.weight.detach() * (1 - 2 * ROUNDING))

    def forward(self, values: Tensor) -> Tensor:
        return self.weight - self.target


@pytest.mark.parametrize(("factor", "agrees"), [(1.3, True), (0.7, True), (0.0, False)])
def test_kernels_may_move_a_gradient_as_far_as_noise_does(factor, agrees):
    setting = Setting(torch.optim.SGD)
    setting.network = nn.Sequential(Sensitive())
    setting.optimizer = torch.optim.SGD(setting.network.parameters(), lr=1e-3)
    setting.before = StateBackup(lambda: tensors_of(setting.optimizer))
    found = setting.fault("compile", lambda net: gradient(net, "0.weight").mul_(factor))
    assert (found is None) == agrees, found


def test_values_that_are_not_a_number_do_not_agree_with_numbers():
    found = Setting(torch.optim.AdamW).fault(
        "compile", lambda net: gradient(net, "0.bias").fill_(torch.nan)
    )
    assert found is not None
