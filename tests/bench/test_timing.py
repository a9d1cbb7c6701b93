"""Time that updates take."""

import time

import pytest
import torch

from manyhands_bench.timing import step_times

CPU = torch.device("cpu")


def test_every_update_is_timed():
    seen = []

    def update(step):
        seen.append(step)
        time.sleep(0.01)

    times = step_times(update, range(3, 7), CPU)
    assert seen == [3, 4, 5, 6] and len(times) == 4
    assert all(seconds >= 0.01 for seconds in times)


@pytest.mark.gpu
@pytest.mark.gpu_serial
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_counts_its_own_time():
    device = torch.device("cuda")
    block = torch.ones(4096, 4096, device=device)
    times = step_times(lambda _: block.mm(block), range(5), device)
    assert len(times) == 5 and min(times) > 0
