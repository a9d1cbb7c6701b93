"""The image encoder's way through transformers' parts."""

import pytest
import torch
from torch import nn

from manyhands.policies.smolvla.images import encoded, patch_places
from manyhands.policies.smolvla.vlm import build_vlm, read_vlm_config


@pytest.fixture
def vision(tiny):
    """An image encoder of transformers' own layers, and one of ours with the same weights."""
    config = tiny.config()
    own = tiny.network().model.vlm_with_expert.vlm.model.vision_model
    theirs = build_vlm(read_vlm_config(config), config).model.vision_model.eval()
    theirs.load_state_dict(own.state_dict())
    return theirs, own


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [32, 16])
def test_features_are_transformers(vision, size, dtype):
    theirs, own = (each.to(dtype) for each in vision)
    pixels = torch.rand(3, 3, size, size, dtype=dtype) * 2 - 1
    with torch.no_grad():
        expected = theirs(pixel_values=pixels).last_hidden_state
        found = encoded(own, pixels, patch_places(own, size))
    near = 4e-6 if dtype is torch.float32 else 2e-2
    torch.testing.assert_close(found, expected, rtol=near, atol=near)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_in_the_type_of_autocast_do_without_it(vision, dtype):
    own, seen = vision[1].to(dtype), []
    norm = own.encoder.layers[0].layer_norm1
    norm.register_forward_pre_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu")))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        encoded(own, torch.zeros(1, 3, 32, 32), patch_places(own, 32))
    assert seen == [dtype is torch.float32]


def test_images_of_the_known_size_take_every_place(vision):
    _, own = vision
    assert patch_places(own, 32).tolist() == list(range(16))
    assert patch_places(own, 16).tolist() == [0, 2, 8, 10]


def test_layers_of_ours_have_transformers_names_in_their_order(vision):
    theirs, own = vision
    assert [*own.state_dict()] == [*theirs.state_dict()]
    assert isinstance(own.encoder.layers, nn.ModuleList)
