"""Tensors that ranks exchange within a pass."""

import sys
from pathlib import Path

import pytest
import torch

from manyhands.launch.workers import run_workers
from manyhands.parallel.exchange import num_ranks

EXCHANGE = """
import sys, torch
import torch.distributed as dist
from manyhands.parallel.exchange import num_ranks, stack_over_ranks, sum_over_ranks

dist.init_process_group("gloo")
own = torch.arange(3.0) + 10 * dist.get_rank()
said = [torch.tensor(num_ranks()), stack_over_ranks(own), sum_over_ranks(own), own]
torch.save(said, f"{sys.argv[1]}/{dist.get_rank()}.pt")
dist.destroy_process_group()
"""


def test_one_process_is_one_rank():
    assert num_ranks() == 1


@pytest.mark.process
def test_ranks_see_all_tensors_and_keep_their_own(tmp_path: Path):
    assert run_workers(2, [sys.executable, "-c", EXCHANGE, str(tmp_path)]) == 0
    for rank in range(2):
        said = [value.tolist() for value in torch.load(tmp_path / f"{rank}.pt")]
        both = [[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]
        assert said == [2, both, [10.0, 12.0, 14.0], both[rank]]
