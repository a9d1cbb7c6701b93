"""Draws of every policy and of image augmentation: the same bits on any rank and device."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.config.sections.image_transforms import ImageTransformsConfig
from manyhands.data.augment.augmentation import Augmentation
from manyhands.draws.counter import CounterSource, derive_key
from manyhands.parallel.collectives import even_slice
from manyhands.policies.act.network import ActNetwork
from manyhands.policies.diffusion.network import DiffusionNetwork
from manyhands.policies.smolvla.network import SmolVLANetwork
from manyhands.types import DrawSource

Draw = Callable[[DrawSource], dict[str, Tensor]]
KINDS = ["act", "diffusion", "diffusion, several", "smolvla", "augmentation"]
SHAPES = {
    "act": {"latent_noise": (32,)},
    "diffusion": {"crop": (2, 2), "noise": (64, 4), "timesteps": ()},
    "diffusion, several": {"crop": (2, 2), "noise": (3, 64, 4), "timesteps": (3,)},
    "smolvla": {"noise": (50, 32), "time": ()},
}
CAMERAS = {f"observation.images.{name}": (3, 64, 96) for name in ("top", "wrist")}
FEATURES: dict[str, Any] = {
    "input_features": {"observation.state": PolicyFeature(FeatureType.STATE, (6,))}
    | {name: PolicyFeature(FeatureType.VISUAL, shape) for name, shape in CAMERAS.items()},
    "output_features": {"action": PolicyFeature(FeatureType.ACTION, (4,))},
    "pretrained_backbone_weights": None,
}
CROPPING: dict[str, Any] = {"crop_shape": (56, 80), "use_separate_rgb_encoder_per_camera": True}
SEVERAL: dict[str, Any] = {"crop_per_sample": True, "noise_draws_per_sample": 3}


@pytest.fixture(scope="module")
def draws(tiny_vlm) -> dict[str, Draw]:
    """How each of them draws; their weights, which draws do not depend on, have no values."""
    features = {key: FEATURES[key] for key in ("input_features", "output_features")}
    with torch.device("meta"):
        act = ActNetwork(ActConfig(**FEATURES))
        diffusion = DiffusionNetwork(DiffusionConfig(**FEATURES, **CROPPING))
        several = DiffusionNetwork(DiffusionConfig(**FEATURES, **CROPPING, **SEVERAL))
        smolvla = SmolVLANetwork(
            SmolVLAConfig(
                **features, vlm_model_name=str(tiny_vlm), random_vlm=True, num_vlm_layers=4
            )
        )
    augmentation = Augmentation(ImageTransformsConfig(enable=True), CAMERAS)
    made = (act.draw, diffusion.draw, several.draw, smolvla.draw, augmentation.draw)
    return dict(zip(KINDS, made, strict=True))


def source(step: int, positions: range, device: str = "cpu") -> CounterSource:
    rows = torch.arange(positions.start, positions.stop, device=device)
    return CounterSource(derive_key(0, "draws", step).to(device), rows)


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert torch.equal(value.cpu(), expected[name]), name


@pytest.mark.parametrize("kind", SHAPES)
def test_each_policy_draws_a_row_per_sample(draws, kind):
    drawn = draws[kind](source(0, range(5)))
    assert {name: value.shape[1:] for name, value in drawn.items()} == SHAPES[kind]
    assert {len(value) for value in drawn.values()} == {5}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(num_samples=st.integers(1, 130), num_ranks=st.sampled_from([1, 2, 3, 4, 64]))
def test_ranks_draw_what_one_process_draws_for_their_samples(draws, kind, num_samples, num_ranks):
    whole, everyone = draws[kind](source(9, range(num_samples))), range(num_samples)
    for rank in range(num_ranks):
        own = even_slice(num_samples, rank, num_ranks)
        drawn = draws[kind](source(9, everyone[own]))
        assert_equal(drawn, {name: value[own] for name, value in whole.items()})


@pytest.mark.parametrize("kind", KINDS)
def test_steps_differ_and_nothing_waits_for_the_device(draws, kind, no_host_synchronization):
    with no_host_synchronization():
        one, other = (draws[kind](source(step, range(4))) for step in range(2))
    assert all(not torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("kind", KINDS)
class TestOnAGpu:
    """What only a real device can show."""

    def test_cpu_and_gpu_draw_the_same_bits(self, draws, kind):
        for step in range(20):
            drawn = draws[kind](source(step, range(3, 500), "cuda"))
            assert_equal(drawn, draws[kind](source(step, range(3, 500))))

    def test_a_cuda_graph_draws_anew_for_every_key(self, draws, kind):
        key = derive_key(0, "draws", 0).cuda()

        def draw() -> dict[str, Tensor]:
            return draws[kind](CounterSource(key, torch.arange(8, 72, device="cuda")))

        draw()  # Tables reach the device before the capture.
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = draw()
        for step in range(5):
            key.copy_(derive_key(0, "draws", step))
            graph.replay()
            assert_equal(captured, draws[kind](source(step, range(8, 72))))
