"""Ranks have a GPU each."""

import pytest
import torch

from manyhands.errors import EnvironmentFault
from manyhands.parallel.placement import RankPlacement, find_placement, reject_shared_gpus


def test_two_ranks_on_one_gpu_are_refused_by_name():
    placements = [RankPlacement(rank, "host", "cuda:0 uuid", "H200") for rank in range(2)]
    with pytest.raises(EnvironmentFault, match="ranks 0 and 1 use the same GPU"):
        reject_shared_gpus(placements)


def test_ranks_on_their_own_gpus_or_other_hosts_pass():
    placements = [
        RankPlacement(0, "a", "cuda:0 one", "H200"),
        RankPlacement(1, "a", "cuda:1 two", "H200"),
        RankPlacement(2, "b", "cuda:0 one", "H200"),
        RankPlacement(3, "b", "cpu", "CPU"),
        RankPlacement(4, "b", "cpu", "CPU"),
    ]
    assert reject_shared_gpus(placements) is None


def test_a_rank_on_a_cpu_says_so():
    assert find_placement(3, torch.device("cpu")).name == "CPU"
