"""Initial weights of SmolVLA's vision-language model."""

from torch import nn

from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.errors import ConfigError
from manyhands.policies.smolvla.network import SmolVLANetwork
from manyhands.policies.smolvla.vlm import load_vlm


def init_vlm(network: nn.Module, config: SmolVLAConfig) -> None:
    """Load its pretrained weights if configured, unless a complete policy is loaded next."""
    if config.random_vlm or config.pretrained_path is not None:
        return
    if config.load_vlm_weights:
        assert isinstance(network, SmolVLANetwork)
        load_vlm(network.model.vlm_with_expert.vlm, config)
    elif config.train_expert_only or config.freeze_vision_encoder:
        raise ConfigError(
            [
                "the vision-language model would stay frozen with random weights. Set "
                "--policy.load_vlm_weights=true, or --policy.path=lerobot/smolvla_base, or "
                "--policy.random_vlm=true to accept that"
            ]
        )
