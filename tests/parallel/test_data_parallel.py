"""One process that computes on several devices."""

from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from manyhands.errors import ConfigError, EnvironmentFault
from manyhands.parallel.data_parallel import DataParallel, devices_of, reject_batch_norm
from manyhands.types import LossTerm

CPU = torch.device("cpu")
AUTOCAST = partial(torch.autocast, "cpu", torch.bfloat16)


class Net(nn.Module):
    """A network with a buffer, and with a draw in its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("scale", torch.tensor(2.0))
        self.seen: list[int] = []

    def forward(self, batch: dict[str, Tensor], draws: dict[str, Tensor]) -> dict[str, LossTerm]:
        self.seen.append(len(batch["action"]))
        product = self.linear(batch["state"]) * self.scale
        error = product.float() + draws["noise"] - batch["action"]
        return {"mse": LossTerm(error.square().sum(), 1.0), "l1": LossTerm(error.abs().sum(), 0.5)}


def batch_of(num_samples: int) -> tuple[dict[str, object], dict[str, Tensor]]:
    torch.manual_seed(1)
    state, action = torch.randn(num_samples, 3), torch.randn(num_samples, 2)
    batch = {"state": state, "action": action, "task": ["reach"] * num_samples}
    return batch, {"noise": torch.randn(num_samples, 2)}


def gradients_of(network: nn.Module, run: nn.Module, num_samples: int) -> list[Tensor]:
    network.zero_grad()
    terms = run(*batch_of(num_samples))
    (terms["mse"].total + terms["l1"].total).backward()
    return [weight.grad.clone() for weight in network.parameters()]


@pytest.mark.parametrize("autocast", [nullcontext, AUTOCAST], ids=["float32", "bf16"])
@pytest.mark.parametrize("num_samples", [1, 2, 5, 6])
def test_parts_on_several_devices_are_one_batch(num_samples, autocast):
    network = Net()
    many = DataParallel(network, [CPU] * 3, autocast)
    batch, draws = batch_of(num_samples)
    with autocast():
        alone = network(batch, draws)
    assert alone["mse"].total.item() == pytest.approx(
        many(batch, draws)["mse"].total.item(), rel=1e-5
    )
    with autocast():
        expected = gradients_of(network, network, num_samples)
    rounding = {} if autocast is nullcontext else {"rtol": 2**-6, "atol": 0.5}
    torch.testing.assert_close(gradients_of(network, many, num_samples), expected, **rounding)


def test_samples_are_spread_evenly_and_none_is_computed_twice():
    network = Net()
    many = DataParallel(network, [CPU] * 3, nullcontext)
    many(*batch_of(5))
    assert [skeleton.seen for skeleton in many.skeletons] == [[2], [2], [1]]
    many(*batch_of(2))
    assert [skeleton.seen for skeleton in many.skeletons] == [[2, 1], [2, 1], [1]]


def test_copies_follow_the_weights_and_hold_none_of_their_own():
    network = Net()
    many = DataParallel(network, [CPU] * 2, nullcontext)
    before = many(*batch_of(4))["mse"].total.item()
    with torch.no_grad():
        network.linear.weight.add_(1.0)
    assert many(*batch_of(4))["mse"].total.item() != pytest.approx(before)
    assert {weight.device.type for weight in many.skeletons.parameters()} == {"meta"}


def test_mode_and_gradients_are_those_of_the_caller():
    many = DataParallel(Net(), [CPU] * 2, nullcontext)
    many.eval()
    assert not any(skeleton.training for skeleton in many.skeletons)
    with torch.no_grad():
        assert not many(*batch_of(4))["mse"].total.requires_grad


def test_batch_norm_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"gpus_per_process cannot train batch norm"):
        reject_batch_norm(nn.Sequential(nn.BatchNorm1d(2)))
    reject_batch_norm(nn.GroupNorm(1, 2))


def test_gpus_are_neighbors_and_must_be_there(monkeypatch):
    assert devices_of(CPU, 3) == [CPU] * 3
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    gpus = [torch.device("cuda", number) for number in (1, 2)]
    assert devices_of(gpus[0], 2) == gpus
    with pytest.raises(EnvironmentFault, match=r"gpus_per_process=5 .* is 4"):
        devices_of(torch.device("cuda"), 5)
