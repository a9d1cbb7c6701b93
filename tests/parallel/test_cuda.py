"""Libraries are loaded beside a run, which goes on as if they were not."""

import gc
import threading
from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from manyhands.parallel.cuda import WARM_UP_THREAD, first_kernels, warming_up


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == WARM_UP_THREAD]


def test_no_thread_is_started_where_there_is_nothing_to_load():
    with warming_up(torch.device("cpu")):
        assert not threads()


class Operations(TorchDispatchMode):
    """Counts what is computed, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.made = Counter[str]()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.made[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def test_both_passes_of_a_convolution_and_of_attention_are_among_the_first_kernels():
    with Operations() as operations:
        first_kernels(torch.device("meta"))
    made = operations.made
    assert made["convolution"] == made["convolution_backward"] == 1
    # With a mask and without, of which each has kernels of its own.
    assert made["_safe_softmax"] == made["_softmax_backward_data"] == 2
    assert made["where"] == 1


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
    with warming_up(device):
        assert torch.equal(torch.rand(3), expected)
    assert not threads()
    # None of its tensors takes whole MiB. cuBLAS may keep a workspace that does for the thread,
    # and the next thread gets it.
    assert (torch.cuda.memory_allocated() - before) % 2**20 == 0
