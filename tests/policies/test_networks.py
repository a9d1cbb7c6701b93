"""Networks by type."""

import pytest
from torch import nn

from manyhands.config.policies.registry import OWN
from manyhands.errors import ConfigError
from manyhands.policies.build import network_factory


@pytest.mark.parametrize("config", OWN, ids=lambda config: config.type)
def test_every_policy_of_this_package_has_a_network(config):
    maker = network_factory(config.type)
    assert isinstance(maker, type) and issubclass(maker, nn.Module)


def test_a_type_without_a_network_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"--policy\.type=wide has no network: no entry point"):
        network_factory("wide")
