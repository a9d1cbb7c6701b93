"""Backbones: names, shapes, norms, and the layout of what they hold."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from manyhands.lerobot_format.files import read_tensors, write_tensors
from manyhands.policies.vision.norms import BatchNorm, FrozenBatchNorm, group_norm
from manyhands.policies.vision.resnet import POSITIONAL, TORCHVISION, ResNet, convolve, max_pool


@pytest.mark.parametrize(
    ("name", "num_parameters", "num_channels"),
    [
        ("resnet18", 11_166_912, 512),
        ("resnet34", 21_267_648, 512),
        ("resnet50", 23_454_912, 2048),
        ("resnet101", 42_394_816, 2048),
        ("resnet152", 57_992_384, 2048),
    ],
)
def test_each_depth_has_the_published_size(name, num_parameters, num_channels):
    with torch.device("meta"):
        backbone = ResNet(name)
    assert sum(parameter.numel() for parameter in backbone.parameters()) == num_parameters
    assert backbone.num_channels == num_channels


def test_names_are_torchvisions():
    with torch.device("meta"):
        shallow, deep = ResNet("resnet18").state_dict(), ResNet("resnet50").state_dict()
    norm = ["weight", "bias", "running_mean", "running_var"]
    assert list(shallow)[:5] == ["conv1.weight", *(f"bn1.{name}" for name in norm)]
    assert [name for name in shallow if name.startswith("layer2.0.")] == [
        "layer2.0.conv1.weight",
        *(f"layer2.0.bn1.{name}" for name in norm),
        "layer2.0.conv2.weight",
        *(f"layer2.0.bn2.{name}" for name in norm),
        "layer2.0.downsample.0.weight",
        *(f"layer2.0.downsample.1.{name}" for name in norm),
    ]
    assert "layer1.0.downsample.0.weight" not in shallow
    assert "layer1.0.downsample.0.weight" in deep
    assert deep["layer4.2.conv3.weight"].shape == (2048, 512, 1, 1)


@pytest.mark.parametrize(
    ("name", "dilated", "shape"),
    [
        ("resnet18", False, (1, 512, 2, 1)),
        ("resnet50", False, (1, 2048, 2, 1)),
        ("resnet50", True, (1, 2048, 3, 2)),
    ],
)
def test_maps_shrink_by_the_stride_rounded_up(name, dilated, shape):
    backbone = ResNet(name, dilate_last_stage=dilated)
    with torch.no_grad():
        assert backbone(torch.rand(1, 3, 33, 32)).shape == shape


def test_dilation_widens_all_but_the_first_block_of_the_last_stage():
    with torch.device("meta"):
        backbone = ResNet("resnet50", dilate_last_stage=True)
    convs = [block.conv2 for block in backbone.layer4]
    assert [conv.dilation for conv in convs] == [(1, 1), (2, 2), (2, 2)]
    assert {conv.stride for conv in convs} == {(1, 1)}


def test_a_convolution_with_its_frozen_norm_is_batch_norm_in_evaluation():
    conv, norm = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), FrozenBatchNorm(8)
    for index, buffer in enumerate(norm.buffers()):
        buffer.copy_(torch.rand(8, generator=torch.Generator().manual_seed(index)) + 0.5)
    image = torch.randn(2, 3, 9, 7, generator=torch.Generator().manual_seed(9))
    expected = F.batch_norm(
        conv(image), norm.running_mean, norm.running_var, norm.weight, norm.bias
    )
    torch.testing.assert_close(convolve(image, conv, norm), expected)


@pytest.mark.parametrize(
    ("norm", "entries"),
    [
        (BatchNorm, ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]),
        (group_norm, ["weight", "bias"]),
    ],
)
def test_parts_can_be_named_by_their_places_and_have_other_norms(norm, entries):
    with torch.device("meta"):
        names = list(ResNet("resnet18", norm, POSITIONAL).state_dict())
    assert names[: 1 + len(entries)] == ["0.weight", *(f"1.{entry}" for entry in entries)]
    assert [name for name in names if name.startswith("5.0.downsample.")] == [
        "5.0.downsample.0.weight",
        *(f"5.0.downsample.1.{entry}" for entry in entries),
    ]
    assert list(dict.fromkeys(name.split(".")[0] for name in names)) == list(POSITIONAL)


def test_names_change_nothing_that_is_computed():
    torch.manual_seed(0)
    named, placed = ResNet("resnet18", BatchNorm), ResNet("resnet18", BatchNorm, POSITIONAL)
    assert named.names == TORCHVISION
    weights = zip(placed.state_dict(), named.state_dict().values(), strict=True)
    placed.load_state_dict(dict(weights))
    images = torch.rand(2, 3, 40, 32)
    assert torch.equal(named(images), placed(images))


def test_weights_are_held_channels_last_and_written_as_ever(tmp_path):
    torch.manual_seed(0)
    backbone = ResNet("resnet18")
    state = backbone.state_dict()
    assert state["layer2.0.conv1.weight"].is_contiguous(memory_format=torch.channels_last)
    # DDP sends a gradient without a copy only if the weight has its strides.
    assert state["layer2.0.downsample.0.weight"].stride() == (64, 1, 64, 64)
    plain = {name: value.contiguous() for name, value in state.items()}
    write_tensors(tmp_path / "own.safetensors", state)
    write_tensors(tmp_path / "plain.safetensors", plain)
    own, other = ((tmp_path / f"{name}.safetensors").read_bytes() for name in ("own", "plain"))
    assert own == other
    fresh = ResNet("resnet18")
    fresh.load_state_dict(read_tensors(tmp_path / "own.safetensors"))
    for name, value in fresh.state_dict().items():
        assert torch.equal(value, state[name]) and value.stride() == state[name].stride()


@pytest.mark.parametrize("norm", [BatchNorm, group_norm])
def test_blocks_may_be_computed_again_instead_of_kept(norm):
    images, results = torch.rand(2, 3, 40, 32), []
    for recompute in (False, True):
        torch.manual_seed(0)
        backbone = ResNet("resnet18", norm, recompute=recompute)
        maps = backbone(images)
        maps.square().mean().backward()
        gradients = [parameter.grad for parameter in backbone.parameters()]
        results.append([maps.detach(), *gradients, *backbone.buffers()])
    assert all(torch.equal(plain, again) for plain, again in zip(*results, strict=True))


def test_a_compiled_network_pools_without_a_gpus_kernels_where_there_is_none():
    images = torch.rand(2, 4, 9, 10).contiguous(memory_format=torch.channels_last)
    found = torch.compile(max_pool, backend="eager", fullgraph=True)(images)
    assert torch.equal(found, F.max_pool2d(images, 3, 2, 1))
