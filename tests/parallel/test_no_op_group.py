"""Ranks that exchange nothing, and compute all the same."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from manyhands.parallel.accelerate_engine import compress_gradients
from manyhands.parallel.collectives import all_gather_rows, all_reduce_sum
from manyhands.parallel.no_op_group import SILENT, no_op_backend

NEEDS_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]
DEVICES = ["cpu", pytest.param("cuda", marks=NEEDS_GPU)]
RANK, NUM_RANKS = 1, 4


@pytest.fixture
def world():
    """One of four ranks; the others need not be there."""
    store = dist.HashStore()
    dist.init_process_group(no_op_backend(), store=store, rank=RANK, world_size=NUM_RANKS)
    yield
    dist.destroy_process_group()


def network(device):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).to(device)


def gradients(net, device):
    net(torch.linspace(-1, 1, 16, device=device).view(2, 8)).square().sum().backward()
    return [weight.grad for weight in net.parameters()]


def test_the_backend_is_registered_once():
    assert no_op_backend() == no_op_backend() == SILENT


@pytest.mark.parametrize("device", DEVICES)
def test_what_others_would_send_is_what_this_rank_has(world, device):
    own = torch.arange(3.0, device=device)
    assert all_reduce_sum(own).tolist() == [0, 1, 2]
    assert all_gather_rows(own).tolist() == [[0, 1, 2]] * NUM_RANKS
    listed = [torch.empty_like(own) for _ in range(NUM_RANKS)]
    dist.all_gather(listed, own)
    assert torch.stack(listed).tolist() == [[0, 1, 2]] * NUM_RANKS
    dist.broadcast(own, src=0)
    dist.barrier()
    assert own.tolist() == [0, 1, 2]


@pytest.mark.parametrize("device", DEVICES)
def test_ddp_shares_its_own_gradient_with_nobody(world, device):
    alone = gradients(network(device), device)
    shared = gradients(DistributedDataParallel(network(device)), device)
    for own, each in zip(alone, shared, strict=True):
        torch.testing.assert_close(each, own / NUM_RANKS)


@pytest.mark.parametrize("device", DEVICES)
def test_rounded_gradients_go_nowhere_either(world, device):
    net = compress_gradients(DistributedDataParallel(network(device)))
    alone = gradients(network(device), device)
    for own, each in zip(alone, gradients(net, device), strict=True):
        torch.testing.assert_close(each, own / NUM_RANKS, rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("degrees", [(NUM_RANKS,), (2, 2)], ids=["fsdp", "hsdp"])
def test_shards_compute_in_numbers_of_the_usual_kind(world, device, degrees):
    names = ("replicate", "shard")[-len(degrees) :]
    net, mesh = network(device), init_device_mesh(device, degrees, mesh_dim_names=names)
    for layer in (net[0], net[2], net):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1, fused=True)
    for _ in range(3):
        gradients(net, device)
        optimizer.step()
        optimizer.zero_grad()
    assert all(weight.to_local().isfinite().all() for weight in net.parameters())
    assert net[0].weight.to_local().shape == (8 // degrees[-1], 8)
