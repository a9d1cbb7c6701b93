"""Tensors that ranks hold parts of."""

import pytest
import torch
from torch import nn

from manyhands.parallel.host_buffers import HostBuffers
from manyhands.parallel.sharded_tensors import (
    fill,
    full_tensor,
    gathered,
    is_shard,
    local_shards,
    local_tensor,
    shard_like,
)


def test_a_whole_tensor_is_its_own_part():
    value = torch.arange(3.0)
    assert not is_shard(value)
    assert full_tensor(value) is value
    assert local_tensor(value) is value
    assert shard_like(value, torch.zeros(3)) is value


def test_only_the_main_rank_gets_copies():
    network = nn.Linear(2, 1)
    copies = gathered(network.state_dict(), is_main=True, copies=HostBuffers())
    assert gathered(network.state_dict(), is_main=False, copies=HostBuffers()) == {}
    fill(network.state_dict(), {name: torch.zeros_like(value) for name, value in copies.items()})
    assert not network.weight.any()
    assert copies["weight"].any()


def test_the_first_holder_saves_what_all_hold():
    values = {"weight": torch.ones(2, 1), "step": torch.tensor(3.0)}
    parts = local_shards(values, is_main=True, copies=HostBuffers())
    assert local_shards(values, is_main=False, copies=HostBuffers()) == {}
    assert {name: part.offsets for name, part in parts.items()} == {"weight": (0, 0), "step": ()}
    values["weight"].zero_()
    assert parts["weight"].values.all()


@pytest.mark.process
def test_parts_to_save_begin_where_the_rank_before_ends(two_ranks):
    first, second = (said["held"]["parts"] for said in two_ranks)
    assert first["layers.0.linear.weight"] == [2, [0, 0]]
    assert second["layers.0.linear.weight"] == [1, [2, 0]]
    assert "head.weight" in first
    assert "head.weight" not in second
    assert "shift" in first
    assert "shift" not in second


@pytest.mark.process
def test_ranks_hold_rows_and_get_them_back(two_ranks):
    assert [said["held"]["rows"] for said in two_ranks] == [2, 1]
    assert [said["held"]["numbers of the head"] for said in two_ranks] == [3, 0]
    for said in two_ranks:
        assert said["held"]["is whole"]
        assert said["held"]["is cut"]
        assert said["held"]["scalar"] == 3.0


@pytest.mark.process
def test_shards_are_gathered_on_the_main_rank_and_filled_on_all(two_ranks):
    first, second = (said["held"] for said in two_ranks)
    assert "layers.1.linear.bias" in first["gathered"]
    assert "shift" in first["gathered"]
    assert all(first["are filled"])
    assert second["gathered"] == []
