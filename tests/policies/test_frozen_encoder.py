"""A policy's image encoder, apart from the rest of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.features import FeatureType, NormalizationMode, PolicyFeature
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.draws.generator import GeneratorSource
from manyhands.errors import ConfigError
from manyhands.policies.build import build_policy
from manyhands.policies.frozen_encoder import FrozenEncoder, weights_digest

CAMERAS = ("observation.images.top", "observation.images.wrist")
INPUTS = {"observation.state": PolicyFeature(FeatureType.STATE, (4,))} | dict.fromkeys(
    CAMERAS, PolicyFeature(FeatureType.VISUAL, (3, 24, 40))
)
ACTION = PolicyFeature(FeatureType.ACTION, (3,))
SCALED = {"VISUAL": NormalizationMode.MEAN_STD, "STATE": NormalizationMode.IDENTITY}


@pytest.fixture
def policy(tiny_vlm):
    """Makes a tiny SmolVLA of the same weights each time, with other values in its config."""

    def make(scale=1.0, **changes):
        config = SmolVLAConfig(
            vlm_model_name=str(tiny_vlm),
            input_features=INPUTS,
            output_features={"action": ACTION},
            num_vlm_layers=2,
            chunk_size=5,
            n_action_steps=5,
            resize_imgs_with_padding=(32, 32),
            random_vlm=True,
        )
        torch.manual_seed(0)
        numbers = {"mean": np.zeros((3, 1, 1)), "std": np.full((3, 1, 1), scale)}
        vectors = {"mean": np.zeros(1), "std": np.ones(1)}
        stats = {CAMERAS[0]: numbers, CAMERAS[1]: numbers | {"std": np.ones((3, 1, 1))}}
        stats |= {"observation.state": vectors, "action": vectors}
        return build_policy(replace(config, **changes), stats, {})

    return make


def batch_of(policy) -> dict[str, object]:
    return {
        **{name: torch.randint(256, (3, 3, 24, 40), dtype=torch.uint8) for name in CAMERAS},
        "observation.state": torch.randn(3, 4),
        "action": torch.randn(3, 5, 3),
        "action_is_pad": torch.zeros(3, 5, dtype=torch.bool),
        "task": ["stack"] * 3,
    }


@pytest.mark.parametrize("changes", [{}, {"empty_cameras": 1}, {"load_vlm_weights": True}], ids=str)
def test_the_loss_of_tokens_is_that_of_images(policy, changes):
    own = policy(**changes)
    batch, draws = batch_of(own), own.network.draw(GeneratorSource(3))
    encoded = FrozenEncoder(own).with_tokens(batch)
    assert encoded.keys() & set(CAMERAS) == set()
    expected, _ = own.training_loss(batch, draws)
    assert torch.equal(own.training_loss(encoded, draws)[0], expected)
    # Tokens of one camera alone are used as well, and the other is encoded.
    name = f"{CAMERAS[1]}.tokens"
    some = {key: value for key, value in batch.items() if key != CAMERAS[1]}
    found, _ = own.training_loss(some | {name: encoded[name]}, draws)
    assert torch.equal(found, expected)
    other, _ = own.training_loss(encoded | {name: encoded[name] + 1}, draws)
    assert not torch.equal(other, expected)


def test_all_that_tokens_depend_on_is_part_of_their_identity(policy):
    first = FrozenEncoder(policy()).identity("no")
    assert FrozenEncoder(policy()).identity("no") == first and [*first] == [*CAMERAS]
    changed = policy()
    with torch.no_grad():
        next(iter(changed.network.vision_parameters().values())).flatten()[0].add_(1e-3)
    others = [
        FrozenEncoder(changed).identity("no"),
        FrozenEncoder(policy()).identity("bf16"),
        FrozenEncoder(policy(resize_imgs_with_padding=(64, 64))).identity("no"),
        FrozenEncoder(policy(normalization_mapping=SCALED)).identity("no"),
        FrozenEncoder(policy(scale=2.0, normalization_mapping=SCALED)).identity("no"),
        FrozenEncoder(policy().to("cpu", torch.float64)).identity("no"),
    ]
    assert len({each[CAMERAS[0]] for each in (first, *others)}) == 1 + len(others)
    # Scales of one camera do not matter to the other.
    assert others[3][CAMERAS[1]] == others[4][CAMERAS[1]]


def test_what_acts_is_no_part_of_it(policy):
    changed = policy()
    with torch.no_grad():
        changed.network.model.action_in_proj.weight.add_(1)
    assert FrozenEncoder(changed).identity("no") == FrozenEncoder(policy()).identity("no")


@pytest.mark.parametrize(
    "changes", [{"train_expert_only": False}, {"freeze_vision_encoder": False}], ids=str
)
def test_an_encoder_that_learns_is_refused(policy, changes):
    own = policy(**({"train_expert_only": False} | changes))
    with pytest.raises(ConfigError, match=r"is trained\. Freeze it .*train_expert_only=true"):
        FrozenEncoder(own)


def test_a_policy_that_has_none_is_refused():
    features = {"input_features": INPUTS, "output_features": {"action": ACTION}}
    config = ActConfig(dim_model=16, n_heads=2, pretrained_backbone_weights=None, **features)
    with pytest.raises(ConfigError, match="act has no image encoder to cache"):
        FrozenEncoder(build_policy(config, {}, {}))


def test_names_types_and_values_make_the_digest_of_weights():
    weight = torch.tensor([1.0, 2.0])
    digests = [
        weights_digest({"a": weight}),
        weights_digest({"b": weight}),
        weights_digest({"a": weight.double()}),
        weights_digest({"a": weight.bfloat16()}),
        weights_digest({"a": weight[:, None]}),
        weights_digest({"a": -weight}),
    ]
    assert len(set(digests)) == len(digests)
    assert weights_digest({"a": weight, "b": weight}) == weights_digest({"b": weight, "a": weight})
