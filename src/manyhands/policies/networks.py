"""Networks by policy type: built in, or registered by other packages."""

from collections.abc import Callable
from typing import Any

from torch import nn

from manyhands.config.act import ActConfig
from manyhands.config.diffusion import DiffusionConfig
from manyhands.config.plugins import NETWORKS, installed
from manyhands.config.smolvla import SmolVLAConfig
from manyhands.errors import ConfigError
from manyhands.policies.act.network import ActNetwork
from manyhands.policies.diffusion.network import DiffusionNetwork
from manyhands.policies.smolvla.network import SmolVLANetwork

Maker = Callable[[Any], nn.Module]
"""Builds a network with new weights from a policy's configuration."""

OWN: dict[str, Maker] = {
    ActConfig.type: ActNetwork,
    DiffusionConfig.type: DiffusionNetwork,
    SmolVLAConfig.type: SmolVLANetwork,
}


def network_maker(kind: str) -> Maker:
    """The constructor of a policy type's network."""
    if kind in OWN:
        return OWN[kind]
    plugins = installed(NETWORKS)
    if kind in plugins.found:
        maker: Maker = plugins.found[kind]
        return maker
    missing = f"{kind} has no network: no entry point of that name in {NETWORKS}"
    raise ConfigError([f"--policy.type={plugins.broken.get(kind, missing)}"])
