"""Libraries are loaded beside a run, which goes on as if they were not."""

import gc
import threading

import pytest
import torch

from manyhands.parallel.waking import WAKING, first_kernels, waking


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == WAKING]


def test_no_thread_is_started_where_there_is_nothing_to_load():
    with waking(torch.device("cpu")):
        assert not threads()


def test_the_first_kernels_can_be_computed():
    first_kernels(torch.device("cpu"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_is_awake_in_the_end_without_memory_kept_or_a_random_number_of_the_host():
    device = torch.device("cuda", 0)
    torch.manual_seed(5)
    expected = torch.rand(3)
    first_kernels(device)
    gc.collect()
    before = torch.cuda.memory_allocated()
    torch.manual_seed(5)
    with waking(device):
        assert torch.equal(torch.rand(3), expected)
    assert not threads()
    # None of its tensors takes whole MiB. cuBLAS may keep a workspace that does for the thread,
    # and the next thread gets it.
    assert (torch.cuda.memory_allocated() - before) % 2**20 == 0
