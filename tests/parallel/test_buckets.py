"""Gradients are laid out once; tests/training/test_restarts.py shows what that is good for."""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from manyhands.parallel.accelerate_engine import rebuild_ddp_buckets


@pytest.fixture
def alone() -> Iterator[None]:
    """A group of one process."""
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def wrapped() -> DistributedDataParallel:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    return DistributedDataParallel(network, gradient_as_bucket_view=True)


def update(network: nn.Module) -> list[torch.Tensor]:
    network(torch.ones(2, 3)).square().sum().backward()
    return [weight.grad.clone() for weight in network.parameters() if weight.grad is not None]


def test_gradients_lie_after_an_update_where_they_lay_before_it(alone):
    network = wrapped()
    rebuild_ddp_buckets(network)
    assert network.reducer._rebuild_buckets()
    update(network)
    assert not network.reducer._rebuild_buckets()


def test_without_it_they_do_not(alone):
    network = wrapped()
    update(network)
    assert network.reducer._rebuild_buckets()


def test_nothing_is_left_behind_and_gradients_stay_the_same(alone):
    settled, plain = wrapped(), wrapped()
    rebuild_ddp_buckets(settled)
    assert all(weight.grad is None for weight in settled.parameters())
    assert all(map(torch.equal, update(settled), update(plain)))
    assert len(update(plain)) == 4


def test_networks_of_one_process_have_no_buckets():
    network = nn.Linear(2, 2)
    before = [weight.detach().clone() for weight in network.parameters()]
    rebuild_ddp_buckets(network)
    assert all(map(torch.equal, network.parameters(), before))
    assert all(weight.grad is None for weight in network.parameters())
