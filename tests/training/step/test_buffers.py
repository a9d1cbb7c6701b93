"""What forward passes change is put back where an update was not sound."""

import torch
from torch import Tensor, nn

from manyhands.policies.vision.norms import FrozenBatchNorm
from manyhands.training.step.state_backup import Buffers

SOUND, BAD = torch.tensor(True), torch.tensor(False)


class Counting(nn.Module):
    """A module that puts another tensor in the place of its buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(2, 2, dtype=torch.float64).T)
        self.register_buffer("is_used", torch.tensor(False), persistent=False)

    def forward(self, values: Tensor) -> Tensor:
        self.calls = self.calls + 1
        self.is_used = torch.tensor(True)
        return values


def network_of() -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(3), Counting(), FrozenBatchNorm(3), nn.BatchNorm1d(3))


def passed(network: nn.Sequential, is_sound: Tensor, value: float = 1.0) -> dict[str, Tensor]:
    """The buffers after a pass that was sound or not."""
    buffers = Buffers(network)
    buffers.keep()
    values = torch.randn(4, 3)
    values[0, 0] = value
    for place in (0, 1, 3):
        values = network[place](values)
    buffers.restore_unless(is_sound)
    return {name: value.clone() for name, value in network.named_buffers()}


def test_a_bad_pass_leaves_no_trace():
    network = network_of()
    passed(network, SOUND)
    before = {name: value.clone() for name, value in network.named_buffers()}
    after = passed(network, BAD, float("nan"))
    assert all(torch.equal(value, before[name]) for name, value in after.items())
    assert [after["1.calls"].tolist(), after["1.is_used"].item()] == [[[1, 1], [1, 1]], True]


def test_a_sound_pass_is_kept():
    torch.manual_seed(0)
    found = passed(network_of(), SOUND)
    torch.manual_seed(0)
    plain, values = network_of(), torch.randn(4, 3)
    values[0, 0] = 1.0
    for place in (0, 1, 3):
        values = plain[place](values)
    assert all(torch.equal(value, found[name]) for name, value in plain.named_buffers())


def test_networks_without_buffers_are_no_trouble():
    network = nn.Linear(1, 1)
    before = [weight.detach().clone() for weight in network.parameters()]
    buffers = Buffers(network)
    buffers.keep()
    buffers.restore_unless(BAD)
    assert all(map(torch.equal, network.parameters(), before))


def test_the_device_is_asked_for_nothing(no_host_synchronization):
    network = network_of()
    before = [value.clone() for value in network.buffers()]
    buffers = Buffers(network)
    with no_host_synchronization():
        buffers.keep()
        network[0](torch.randn(4, 3))
        buffers.restore_unless(BAD)
    assert all(map(torch.equal, network.buffers(), before))
