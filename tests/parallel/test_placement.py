"""Ranks have a GPU each."""

import pytest
import torch

from manyhands.errors import EnvironmentFault
from manyhands.parallel.placement import Seat, refuse_shared_gpus, seat_of


def test_two_ranks_on_one_gpu_are_refused_by_name():
    seats = [Seat(rank, "host", "cuda:0 uuid", "H200") for rank in range(2)]
    with pytest.raises(EnvironmentFault, match="ranks 0 and 1 use the same GPU"):
        refuse_shared_gpus(seats)


def test_ranks_on_their_own_gpus_or_other_hosts_pass():
    seats = [
        Seat(0, "a", "cuda:0 one", "H200"),
        Seat(1, "a", "cuda:1 two", "H200"),
        Seat(2, "b", "cuda:0 one", "H200"),
        Seat(3, "b", "cpu", "CPU"),
        Seat(4, "b", "cpu", "CPU"),
    ]
    assert refuse_shared_gpus(seats) is None


def test_a_rank_on_a_cpu_says_so():
    assert seat_of(3, torch.device("cpu")).name == "CPU"
