"""Kernels are chosen for a run and put back after it."""

import torch

from manyhands.training.kernels import chosen_kernels


def test_choices_last_as_long_as_the_run():
    before = torch.get_float32_matmul_precision()
    with chosen_kernels(deterministic=False):
        assert torch.get_float32_matmul_precision() == "high"
        assert torch.backends.cudnn.benchmark
    with chosen_kernels(deterministic=True):
        assert torch.backends.cudnn.deterministic
        assert not torch.backends.cudnn.benchmark
        assert torch.get_float32_matmul_precision() == "highest"
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.backends.cuda.mem_efficient_sdp_enabled()
    assert torch.backends.cuda.mem_efficient_sdp_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_float32_matmul_precision() == before
