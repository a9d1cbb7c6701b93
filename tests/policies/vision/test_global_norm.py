"""Batch norm of the whole batch, wherever its images are."""

import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from manyhands.launch.workers import run_workers
from manyhands.policies.vision.global_norm import global_batch_norm
from manyhands.policies.vision.norms import BatchNorm

NUM_SAMPLES = 5
TOLERANCES = {torch.float32: 1e-6, torch.float64: 1e-12}

SHARES = """
import sys, torch
import torch.distributed as dist
from manyhands.policies.activation_checkpointing import checkpointed
from manyhands.policies.vision.norms import BatchNorm

dist.init_process_group("gloo")
folder, rank, results = sys.argv[1], dist.get_rank(), []
for case in torch.load(f"{folder}/cases.pt"):
    norm = BatchNorm(4).to(case["images"].dtype)
    norm.load_state_dict(case["state"])
    own = slice(case["num_first"]) if rank == 0 else slice(case["num_first"], None)
    images = case["images"][own].requires_grad_()
    for _ in range(2):
        output = checkpointed(norm, images) if case["recompute"] else norm(images)
    (output * case["targets"][own]).sum().backward()
    tensors = [output.detach(), images.grad, norm.weight.grad, norm.bias.grad]
    results.append((tensors, norm.state_dict()))
torch.save(results, f"{folder}/{rank}.pt")
dist.destroy_process_group()
"""


def filled_norm(dtype: torch.dtype) -> BatchNorm:
    norm, random = BatchNorm(4).to(dtype), torch.Generator().manual_seed(0)
    for value in (norm.weight.data, norm.bias.data, norm.running_mean, norm.running_var):
        value.copy_(torch.rand(4, generator=random))
    return norm


def case_of(dtype: torch.dtype, num_first: int, recompute: bool = False) -> dict:
    random = torch.Generator().manual_seed(1)
    shape = (NUM_SAMPLES, 4, 3, 2)
    images, targets = (torch.randn(shape, generator=random, dtype=dtype) for _ in range(2))
    images = images * torch.tensor([1.0, 3.0, 0.5, 1.0])[:, None, None] + 1
    state = filled_norm(dtype).state_dict()
    return {
        "images": images.to(dtype),
        "targets": targets,
        "state": state,
        "num_first": num_first,
        "recompute": recompute,
    }


def alone(case: dict) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """What PyTorch's own batch norm makes of the whole batch, seen twice."""
    norm = nn.BatchNorm2d(4).to(case["images"].dtype)
    norm.load_state_dict(case["state"])
    images = case["images"].clone().requires_grad_()
    for _ in range(2):
        output = norm(images)
    (output * case["targets"]).sum().backward()
    return [output.detach(), images.grad, norm.weight.grad, norm.bias.grad], norm.state_dict()


@pytest.mark.process
def test_ranks_together_are_one_process_with_the_whole_batch(tmp_path: Path):
    cases = [case_of(dtype, num_first) for dtype in TOLERANCES for num_first in (1, 3, 5)]
    cases.append(case_of(torch.float64, 2, recompute=True))
    torch.save(cases, tmp_path / "cases.pt")
    assert run_workers(2, [sys.executable, "-c", SHARES, str(tmp_path)]).code == 0
    ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for case, (first, first_state), (second, second_state) in zip(cases, *ranks, strict=True):
        tolerance = TOLERANCES[case["images"].dtype]
        expected, state = alone(case)
        together = [torch.cat([first[index], second[index]]) for index in (0, 1)]
        together += [first[index] + second[index] for index in (2, 3)]
        torch.testing.assert_close(together, expected, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(first_state, dict(state), rtol=tolerance, atol=tolerance)
        assert all(torch.equal(first_state[name], second_state[name]) for name in state)


@pytest.fixture
def group_of_one(tmp_path):
    """Collective functions work, alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def results(image, make):
    """A norm's output, gradients and running moments, on the image's device."""
    random = torch.Generator(image.device).manual_seed(1)
    norm = nn.BatchNorm2d(image.shape[1], device=image.device)
    outer = torch.randn(image.shape, generator=random, device=image.device)
    outer = outer.bfloat16().to(image.dtype)
    output = make(norm)(image.requires_grad_())
    gradients = torch.autograd.grad(output, (image, norm.weight, norm.bias), outer)
    return [output, *gradients, norm.running_mean, norm.running_var]


def over_ranks(norm):
    moments_and_affine = (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    return lambda image: global_batch_norm(image, *moments_and_affine)


@pytest.mark.usefixtures("group_of_one")
def test_half_precision_is_taken_and_given():
    image = torch.randn(4, 8, 5, 3, generator=torch.Generator().manual_seed(0)).bfloat16()
    seen, expected = results(image, over_ranks), results(image, lambda norm: norm)
    assert [value.dtype for value in seen] == [value.dtype for value in expected]
    torch.testing.assert_close(seen, expected, rtol=2e-2, atol=2e-2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.usefixtures("group_of_one")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_kernels_of_a_gpu_compute_the_same(dtype, tolerance, layout):
    random = torch.Generator("cuda").manual_seed(0)
    image = torch.randn(8, 32, 9, 7, generator=random, device="cuda") * 2 + 1
    image = image.to(dtype, memory_format=layout)
    seen, expected = results(image, over_ranks), results(image.float(), lambda norm: norm)
    for value, exact in zip(seen, expected, strict=True):
        torch.testing.assert_close(value.float(), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.usefixtures("group_of_one")
def test_a_gpu_without_images_is_no_fault():
    seen = results(torch.zeros(0, 4, 3, 3, device="cuda"), over_ranks)
    assert [tuple(value.shape) for value in seen] == [(0, 4, 3, 3)] * 2 + [(4,)] * 4
