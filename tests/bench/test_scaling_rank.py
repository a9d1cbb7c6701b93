"""One of the processes that are measured."""

import os
import time

import pytest
import torch

from manyhands.bench.scaling_rank import RankRequest, measure_rank, step_times
from manyhands.config.resolve import read_train_config

CPU = torch.device("cpu")


def test_every_update_is_timed():
    seen = []

    def update(step):
        seen.append(step)
        time.sleep(0.01)

    times = step_times(update, range(3, 7), CPU)
    assert seen == [3, 4, 5, 6] and len(times) == 4
    assert all(seconds >= 0.01 for seconds in times)


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


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_counts_its_own_time():
    device = torch.device("cuda")
    block = torch.ones(4096, 4096, device=device)
    times = step_times(lambda _: block.mm(block), range(5), device)
    assert len(times) == 5 and min(times) > 0
