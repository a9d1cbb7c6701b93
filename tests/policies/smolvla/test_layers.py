"""Layers that can be sharded, recomputed and compiled one by one."""

import pytest
import torch
from torch._dynamo.utils import counters

from manyhands.policies.policy import weighted_loss
from manyhands.policies.smolvla.layers import ExpertLayer, TextLayer, VisionLayer
from manyhands.policies.smolvla.network import SmolVLANetwork
from manyhands.policies.smolvla.vlm import build_expert, build_vlm, read_vlm_config

KINDS = (VisionLayer, TextLayer, ExpertLayer)


def loss_and_gradients(network, batch, draws):
    loss, _ = weighted_loss(network(batch, draws), network.entry_counts(batch))
    weights = [each for each in network.parameters() if each.requires_grad]
    return [loss.detach(), *torch.autograd.grad(loss, weights)]


def test_weights_have_transformers_names_in_their_order(tiny):
    config = tiny.config()
    decoder, found = tiny.network().model.vlm_with_expert, read_vlm_config(config)
    assert [*decoder.vlm.state_dict()] == [*build_vlm(found, config).state_dict()]
    assert [*decoder.lm_expert.state_dict()] == [*build_expert(found, config).state_dict()]


def test_every_layer_is_called_as_a_module(tiny):
    network, called = tiny.network(), []
    layers = [each for each in network.modules() if isinstance(each, KINDS)]
    for layer in layers:
        layer.register_forward_hook(lambda module, *_: called.append(module))
    loss_and_gradients(network, tiny.batch(), tiny.draws())
    assert len(layers) == 2 + 4 + 4
    # What is observed is read before the state is.
    texts = [each for each in layers if isinstance(each, TextLayer)]
    others = [each for each in layers if not isinstance(each, TextLayer)]
    assert called == [*others[:2], *texts, *texts, *others[2:]]


@pytest.mark.soak
def test_layers_of_a_kind_are_compiled_together_and_without_a_break(tiny):
    network, batch, draws = tiny.network(), tiny.batch(), tiny.draws()
    expected = loss_and_gradients(network, batch, draws)
    torch._dynamo.reset()
    counters.clear()
    for layer in network.modules():
        if isinstance(layer, KINDS):
            layer.compile(backend="aot_eager", fullgraph=True, dynamic=False)
    torch.testing.assert_close(loss_and_gradients(network, batch, draws), expected)
    # Of images; of words and of the state, by the last layer and by others; joint and apart.
    assert counters["stats"]["unique_graphs"] == 1 + 4 + 2
    torch._dynamo.reset()


def test_layers_are_what_is_sharded_and_compiled():
    assert SmolVLANetwork.shard_units == SmolVLANetwork.compile_units == KINDS
