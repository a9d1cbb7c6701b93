"""Copies in the host's memory."""

import pytest
import torch

from manyhands.parallel.host_buffers import HostBuffers


def test_a_copy_is_made_in_the_place_of_the_one_before():
    copies, value = HostBuffers(), torch.arange(6.0).view(2, 3)
    first = copies.copy("weight", value)
    value += 1
    assert first.tolist() == [[0, 1, 2], [3, 4, 5]]
    second = copies.copy("weight", value)
    assert second.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert second.data_ptr() == first.data_ptr() != copies.copy("bias", value).data_ptr()


def test_a_tensor_of_another_shape_or_type_has_a_place_of_its_own():
    copies = HostBuffers()
    first = copies.copy("weight", torch.ones(2))
    assert copies.copy("weight", torch.zeros(3)).tolist() == [0, 0, 0]
    assert copies.copy("weight", torch.zeros(3).int()).dtype == torch.int32
    assert first.tolist() == [1, 1]


def test_copies_lie_in_one_piece_and_take_no_part_in_learning():
    weight = torch.nn.Parameter(torch.arange(6.0).view(2, 3).T)
    copy = HostBuffers().copy("weight", weight)
    assert copy.is_contiguous() and not copy.requires_grad
    assert torch.equal(copy, weight)


def test_memory_that_cannot_be_pinned_does_not_stop_a_copy(monkeypatch):
    make = torch.empty

    def empty(*shape, pin_memory=None, **options):
        if pin_memory is not None:
            raise RuntimeError("CUDA error: out of memory")
        return make(*shape, **options)

    monkeypatch.setattr(torch, "empty", empty)
    assert HostBuffers().copy("weight", torch.ones(2)).tolist() == [1, 1]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_copies_of_a_gpus_tensors_lie_in_pinned_memory():
    weight = torch.arange(6.0, device="cuda").view(2, 3).T
    copy = HostBuffers().copy("weight", weight)
    assert copy.is_pinned() and copy.device.type == "cpu"
    assert copy.tolist() == weight.tolist()
