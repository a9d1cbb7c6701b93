"""The published vision-language model, as far as it is known without its files."""

import pytest
import torch

from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.errors import WeightsUnavailable
from manyhands.policies.smolvla import vlm
from manyhands.policies.smolvla.network import SmolVLANetwork
from manyhands.policies.smolvla.vlm import read_vlm_config

FEATURES = {
    "input_features": {"observation.state": PolicyFeature(FeatureType.STATE, (6,))},
    "output_features": {"action": PolicyFeature(FeatureType.ACTION, (6,))},
}


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    pytest.importorskip("transformers", reason="pip install 'manyhands[smolvla]'")

    def unavailable(*_):
        raise WeightsUnavailable("there is no network")

    monkeypatch.setattr(vlm, "model_folder", unavailable)


def test_the_published_model_has_as_many_weights_as_lerobots():
    config = SmolVLAConfig(**FEATURES, random_vlm=True)
    with torch.device("meta"):
        network = SmolVLANetwork(config)
    weights = [*network.parameters()]
    assert len(network.state_dict()) == len(weights) == 500
    assert sum(each.numel() for each in weights) == 450_046_176
    assert sum(each.numel() for each in weights if each.requires_grad) == 99_880_992


def test_only_random_weights_do_without_its_files():
    with pytest.raises(WeightsUnavailable, match="no network"):
        read_vlm_config(SmolVLAConfig())
    with pytest.raises(WeightsUnavailable, match="no network"):
        read_vlm_config(SmolVLAConfig(vlm_model_name="some/other", random_vlm=True))


@pytest.mark.parametrize("changes", [{}, {"load_vlm_weights": True}], ids=str)
def test_its_text_model_is_in_lerobots_type(changes):
    found = read_vlm_config(SmolVLAConfig(random_vlm=True, **changes))
    assert found.text_config.dtype is torch.bfloat16
    assert found.text_config.num_hidden_layers == 16
