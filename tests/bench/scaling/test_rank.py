"""One of the processes that are measured."""

import os

import pytest
import torch

from manyhands.config.resolve import read_train_config
from manyhands_bench.scaling.rank import RankRequest, measure_rank


@pytest.fixture
def threads():
    """Threads as they were."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_a_process_on_its_own_tells_what_it_would_exchange(tiny_dataset, tiny_act, threads):
    config = read_train_config([f"--dataset.root={tiny_dataset}", *tiny_act])
    request = RankRequest(num_steps=3, warm_up=1, threads=1, exchanges=True)
    report = measure_rank(config, request)
    assert (report.rank, report.num_ranks, report.pid) == (0, 1, os.getpid())
    assert (report.strategy, report.device, report.threads) == ("single", "cpu", 1)
    assert len(report.step_s) == 3 and min(report.step_s) > 0
    traffic = report.traffic
    assert traffic.gradient_bytes == traffic.weight_bytes > 0 and traffic.gradient_bytes % 4 == 0
    # The layers that ACT declares, and the rest of it.
    assert traffic.num_units == 4
