"""What of an update is compiled."""

import pytest
import torch
from torch import nn
from torch.optim import AdamW

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.sections.optim import EmaConfig
from manyhands.policies.act.network import ActNetwork
from manyhands.policies.act.transformer import Decoder, Encoder
from manyhands.policies.vision.resnet import ResNet
from manyhands.training.step.compiled_modules import CompiledModules, modules_of
from manyhands.training.step.ema import Ema
from manyhands.training.step.optimizer import make_capturable


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
    parts = modules_of(network)
    assert [type(part) for part in parts] == [Encoder, ResNet, Encoder, Decoder]
    with CompiledModules(network).compiled():
        assert all(part._compiled_call_impl is not None for part in parts)
    assert all(part._compiled_call_impl is None for part in parts)


def test_buffers_keep_their_strides_and_dropout_its_draws():
    """Padded strides made Inductor read beyond the output of a custom operator."""
    from torch._inductor import config

    with CompiledModules(nn.Linear(2, 2)).compiled():
        assert not config.comprehensive_padding and config.fallback_random
    assert config.comprehensive_padding and not config.fallback_random


def test_a_network_that_names_no_parts_is_one():
    network = nn.Sequential(nn.Linear(2, 2))
    assert modules_of(network) == [network]


def test_an_optimizer_on_a_cpu_keeps_its_steps():
    network = nn.Sequential(nn.Linear(2, 2))
    optimizer = AdamW(network.parameters(), fused=True)
    with CompiledModules(network, optimizer).compiled() as read:
        assert read is None and "step" not in vars(optimizer)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize(("amsgrad", "has_own"), [(False, True), (True, False)])
def test_adam_as_published_steps_by_a_kernel_of_its_own(amsgrad, has_own):
    network = nn.Sequential(nn.Linear(2, 2, device="cuda"))
    optimizer = make_capturable(AdamW(network.parameters(), fused=True, amsgrad=amsgrad))
    network(torch.ones(1, 2, device="cuda")).sum().backward()
    optimizer.step()
    ema = Ema(EmaConfig(), network)
    with CompiledModules(network, optimizer, ema).compiled() as read:
        assert (read is not None) == has_own == ("step" in vars(optimizer))
        assert ("follow" in vars(ema)) == has_own
    assert "step" not in vars(optimizer) and "follow" not in vars(ema)
