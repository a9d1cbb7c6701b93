"""What one GPU can show of several ranks: two that share it over gloo, and one over NCCL."""

import sys

import pytest
import torch

from manyhands.launch.workers import run_workers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.process,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

# Ranks that share a GPU are rejected in a run: they would only slow each other down.
STEPS = """
import os, sys
os.environ["LOCAL_RANK"] = "0"
import torch
from torch import nn
from manyhands.cli.main import run_guarded
from manyhands.config.policies.act import ActConfig
from manyhands.config.sections.execution import DdpConfig
from manyhands.config.train import TrainConfig
from manyhands.data.loading.stream import BatchSplit
from manyhands.parallel import world as worlds
from manyhands.parallel.engine import build_engine
from manyhands.parallel.collectives import all_reduce_sum
from manyhands.training.health.out_of_memory import explaining_oom
from manyhands.training.periods import StopPoll

worlds.reject_shared_gpus = lambda placements: None
backend, full_rank = sys.argv[1], int(sys.argv[2])
config = TrainConfig(policy=ActConfig(device="cuda"))

class SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return all_reduce_sum(value)

    @staticmethod
    def backward(ctx, gradient):
        # Autograd runs this in a thread of its own.
        return all_reduce_sum(gradient)

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, values):
        return SumOverRanks.apply(self.layer(values))

def train(_arguments):
    torch.manual_seed(0)
    with worlds.joined_world(config, backend=backend) as world:
        engine, poll = build_engine(world, 1, DdpConfig()), StopPoll(world)
        network = engine.prepare(Network().to(world.device))
        optimizer = torch.optim.AdamW(network.parameters(), fused=True)
        with explaining_oom(BatchSplit(world.rank, world.size, 4), world):
            for step in range(6):
                values = torch.full((2, 8), 1.0 + world.rank + step, device=world.device)
                for part in engine.micro_batches({"values": values}):
                    if step == 3 and world.rank == full_rank:
                        torch.empty(1 << 46, device=world.device)
                    engine.backward(network(part["values"]).square().mean())
                engine.step(optimizer, 1.0)
                optimizer.zero_grad()
                assert not poll.after_step()
        weights = sum(float(each.double().sum()) for each in network.parameters())
        assert len({*world.gather(weights)}) == 1
    return 0

sys.exit(run_guarded(train, []))
"""


@pytest.mark.parametrize(("backend", "num_ranks"), [("gloo", 2), ("nccl", 1)])
def test_ranks_train_alike(backend, num_ranks):
    command = [sys.executable, "-c", STEPS, backend, "-1"]
    assert run_workers(num_ranks, command).code == 0


def test_a_rank_out_of_gpu_memory_ends_the_one_that_waits_for_it(capfd):
    assert run_workers(2, [sys.executable, "-c", STEPS, "gloo", "1"]).code == 2
    printed = capfd.readouterr().err
    assert printed.count("manyhands rank 1: out of memory in a training step") == 1
    assert "Traceback" not in printed


def test_a_single_rank_over_nccl_out_of_gpu_memory_says_so(capfd):
    assert run_workers(1, [sys.executable, "-c", STEPS, "nccl", "0"]).code == 2
    assert "out of memory in a training step on cuda" in capfd.readouterr().err
