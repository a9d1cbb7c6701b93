"""Tensors that ranks exchange within a pass."""

import sys
from pathlib import Path

import pytest
import torch

from manyhands.launch.workers import run_workers
from manyhands.parallel.exchange import apart, is_apart, num_ranks

EXCHANGE = """
import sys, torch
import torch.distributed as dist
from manyhands.parallel.exchange import apart, num_ranks, stack_over_ranks, sum_over_ranks

dist.init_process_group("gloo")
own = torch.arange(3.0) + 10 * dist.get_rank()
said = [torch.tensor(num_ranks()), stack_over_ranks(own), sum_over_ranks(own), own]
with apart():
    said.append(torch.tensor(num_ranks()))
said.append(torch.tensor(num_ranks()))
torch.save(said, f"{sys.argv[1]}/{dist.get_rank()}.pt")
dist.destroy_process_group()
"""


def test_one_process_is_one_rank():
    assert num_ranks() == 1


def test_a_rank_is_apart_until_it_is_done_or_has_failed():
    with pytest.raises(KeyError), apart():
        assert is_apart()
        raise KeyError
    assert not is_apart()


@pytest.mark.process
def test_ranks_see_all_tensors_and_keep_their_own(tmp_path: Path):
    assert run_workers(2, [sys.executable, "-c", EXCHANGE, str(tmp_path)]).code == 0
    for rank in range(2):
        said = [value.tolist() for value in torch.load(tmp_path / f"{rank}.pt")]
        both = [[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]
        assert said[:4] == [2, both, [10.0, 12.0, 14.0], both[rank]]
        assert said[4:] == [1, 2]
