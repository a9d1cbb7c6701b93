"""Networks that a rank tries out by itself."""

import pytest
import torch
from torch import nn

from manyhands.parallel.sharded_engine import NoCommunication, disable_communication


@pytest.mark.process
def test_ranks_by_themselves_make_as_many_updates_as_they_like(two_ranks):
    assert [said["solitary"] for said in two_ranks] == [[1, 1], [3, 3]]


def test_silence_takes_room_and_sends_nothing():
    room = NoCommunication().allocate((2, 3), dtype=torch.float64, device=torch.device("cpu"))
    assert (room.shape, room.dtype) == ((2, 3), torch.float64)
    NoCommunication()(room, torch.ones(3), group=None, async_op=True)
    assert not room.any()


def test_whole_networks_have_nothing_to_keep_apart():
    network = nn.Linear(1, 1)
    expected = network(torch.ones(1, 1)).item()
    disable_communication(network)
    assert network(torch.ones(1, 1)).item() == expected
