"""What of a network is compiled."""

from torch import nn

from manyhands.config.act import ActConfig
from manyhands.config.features import FeatureType, PolicyFeature
from manyhands.policies.act.network import ActNetwork
from manyhands.policies.act.transformer import Decoder, Encoder
from manyhands.policies.vision.resnet import ResNet
from manyhands.training.regions import Regions, parts_of


def test_the_parts_that_a_network_names_are_compiled_for_a_while():
    config = ActConfig(
        input_features={
            "observation.state": PolicyFeature(FeatureType.STATE, (2,)),
            "observation.images.top": PolicyFeature(FeatureType.VISUAL, (3, 32, 32)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (2,))},
        dim_model=16,
        n_heads=2,
        pretrained_backbone_weights=None,
    )
    network = ActNetwork(config)
    parts = parts_of(network)
    assert [type(part) for part in parts] == [Encoder, ResNet, Encoder, Decoder]
    with Regions(network).compiled():
        assert all(part._compiled_call_impl is not None for part in parts)
    assert all(part._compiled_call_impl is None for part in parts)


def test_a_network_that_names_no_parts_is_one():
    network = nn.Sequential(nn.Linear(2, 2))
    assert parts_of(network) == [network]
