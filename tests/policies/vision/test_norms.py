"""Norms: frozen ones, those of the batch, and those of groups."""

import pytest
import torch
from torch import Tensor, nn

from manyhands.policies.vision.norms import BatchNorm, FrozenBatchNorm, group_norm, recomputing


def filled_norm() -> BatchNorm:
    norm, random = BatchNorm(4), torch.Generator().manual_seed(0)
    for value in (norm.weight.data, norm.bias.data, norm.running_mean, norm.running_var):
        value.copy_(torch.rand(4, generator=random))
    return norm


def images_of(seed: int) -> Tensor:
    return torch.randn(5, 4, 3, 2, generator=torch.Generator().manual_seed(seed)) * 3 + 1


@pytest.mark.parametrize("training", [True, False])
def test_one_process_normalizes_as_pytorch_does(training):
    norm, reference = filled_norm().train(training), nn.BatchNorm2d(4).train(training)
    reference.load_state_dict(norm.state_dict())
    assert list(reference.state_dict()) == list(norm.state_dict())
    images = images_of(1)
    assert torch.equal(norm(images), reference(images))
    states = zip(norm.state_dict().values(), reference.state_dict().values(), strict=True)
    assert all(torch.equal(own, others) for own, others in states)


def test_a_repeated_pass_gives_the_same_and_leaves_the_statistics():
    norm, images = filled_norm(), images_of(1)
    first = norm(images)
    state = {name: value.clone() for name, value in norm.state_dict().items()}
    with recomputing(nn.Sequential(norm)):
        assert torch.equal(norm(images), first)
    assert all(torch.equal(norm.state_dict()[name], value) for name, value in state.items())
    norm(images)
    assert norm.num_batches_tracked == 2


def test_a_frozen_norm_has_nothing_to_train():
    assert list(FrozenBatchNorm(8).parameters()) == []


def test_groups_have_sixteen_channels():
    norm = group_norm(64)
    assert (norm.num_groups, norm.eps) == (4, 1e-5)
    assert list(norm.state_dict()) == ["weight", "bias"]
