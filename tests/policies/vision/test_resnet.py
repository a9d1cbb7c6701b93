"""Backbones: names, shapes, the frozen norm, and where pretrained weights come from."""

from urllib.error import URLError

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from manyhands.errors import UserError
from manyhands.policies import vision
from manyhands.policies.vision import FrozenBatchNorm, ResNet, convolve, load_imagenet


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
    backbone = ResNet(name, dilated)
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


def test_the_norm_has_nothing_to_train():
    assert list(FrozenBatchNorm(8).parameters()) == []


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An empty cache of published weights, and no network."""

    def unreachable(url, *_args, **_kwargs):
        raise URLError(f"no route to {url}")

    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", unreachable)
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints"


def test_published_weights_are_taken_from_the_cache(hub):
    published = {
        name: torch.rand_like(value) for name, value in ResNet("resnet18").state_dict().items()
    }
    classifier = {"fc.weight": torch.ones(1000, 512), "bn1.num_batches_tracked": torch.tensor(3)}
    torch.save(published | classifier, hub / "resnet18-f37072fd.pth")
    backbone = ResNet("resnet18")
    load_imagenet(backbone, "resnet18", "ResNet18_Weights.IMAGENET1K_V1")
    assert all(torch.equal(backbone.state_dict()[name], value) for name, value in published.items())


@pytest.mark.usefixtures("hub")
def test_without_cache_and_network_the_user_learns_what_to_do():
    with pytest.raises(UserError, match=r"checkpoints.*pretrained_backbone_weights=null"):
        load_imagenet(ResNet("resnet18"), "resnet18", "ResNet18_Weights.IMAGENET1K_V1")


@pytest.mark.parametrize("content", [b"", b"no weights", b"PK\x03\x04"])
def test_a_damaged_cache_is_named(hub, content):
    (hub / "resnet18-f37072fd.pth").write_bytes(content)
    with pytest.raises(UserError, match=r"resnet18-f37072fd\.pth is damaged"):
        load_imagenet(ResNet("resnet18"), "resnet18", "ResNet18_Weights.IMAGENET1K_V1")


def test_weights_of_another_depth_are_refused_with_those_that_fit():
    with pytest.raises(UserError, match=r"does not fit.*ResNet50_Weights\.IMAGENET1K_V2"):
        load_imagenet(ResNet("resnet50"), "resnet50", "ResNet18_Weights.IMAGENET1K_V1")


def test_every_depth_has_published_weights():
    assert {name.split("_")[0].lower() for name in vision.PRETRAINED_FILES} == {
        "resnet18",
        "resnet34",
        "resnet50",
        "resnet101",
        "resnet152",
    }
