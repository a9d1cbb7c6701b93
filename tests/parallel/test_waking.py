"""Libraries are loaded beside a run, which goes on as if they were not."""

import gc
import threading

import pytest
import torch

from manyhands.parallel.waking import WAKING, first_kernels, wake


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == WAKING]


def test_no_thread_is_started_where_there_is_nothing_to_load():
    wake(torch.device("cpu"))
    assert not threads()


def test_no_random_numbers_are_drawn():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first_kernels(torch.device("cpu"))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_is_woken_without_a_random_number_or_memory_kept():
    device = torch.device("cuda", 0)
    torch.manual_seed(5)
    expected = torch.rand(3, device=device)
    first_kernels(device)
    gc.collect()
    before = torch.cuda.memory_allocated()
    torch.manual_seed(5)
    wake(device)
    for thread in threads():
        thread.join()
    assert torch.equal(torch.rand(3, device=device), expected)
    # Its tensors take less than a MiB. cuBLAS may keep a workspace of whole ones for the thread,
    # which the next thread gets.
    assert (torch.cuda.memory_allocated() - before) % 2**20 == 0
