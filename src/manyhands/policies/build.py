"""Build a policy and its network from a configuration."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.base import PolicyConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.features import LanguageConfig, NormalizationMode
from manyhands.config.policies.registry import NETWORKS, installed
from manyhands.config.policies.size_limits import size_faults
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.errors import ConfigError, UserError
from manyhands.lerobot_format.policy.processors import NormalizerStep, Processors, TokenizerStep
from manyhands.policies.act.network import ActNetwork
from manyhands.policies.diffusion.network import DiffusionNetwork
from manyhands.policies.normalize import STATISTICS
from manyhands.policies.policy import Policy
from manyhands.policies.smolvla.network import SmolVLANetwork
from manyhands.policies.smolvla.vlm import init_vlm
from manyhands.policies.vision.imagenet import load_backbone_file, load_imagenet
from manyhands.policies.vision.resnet import ResNet
from manyhands.types import Stats

Maker = Callable[[Any], nn.Module]
"""Builds a network with new weights from a policy's configuration."""

OWN: dict[str, Maker] = {
    ActConfig.type: ActNetwork,
    DiffusionConfig.type: DiffusionNetwork,
    SmolVLAConfig.type: SmolVLANetwork,
}


def network_factory(kind: str) -> Maker:
    """The constructor of a policy type's network."""
    if kind in OWN:
        return OWN[kind]
    plugins = installed(NETWORKS)
    if kind in plugins.found:
        maker: Maker = plugins.found[kind]
        return maker
    missing = f"{kind} has no network: no entry point of that name in {NETWORKS}"
    raise ConfigError(f"--policy.type={plugins.broken.get(kind, missing)}")


Modes = dict[str, NormalizationMode]


def build_policy(
    config: PolicyConfig, stats: Stats, rename_map: Mapping[str, str] | None = None
) -> Policy:
    """A policy with fresh weights, scaled by a dataset's statistics; with none, values stay raw."""
    # `rename_map` maps a dataset's or robot's feature names to the policy's.
    # A third-party policy may scale nothing and have no such field.
    modes: Modes = getattr(config, "normalization_mapping", {})
    features = config.input_features | config.output_features
    inputs = NormalizerStep(features, modes, stats)
    if stats:
        _check_statistics(inputs)
    outputs = NormalizerStep(config.output_features, modes, stats)
    observed = {
        key: name for key, name in (rename_map or {}).items() if name in config.input_features
    }
    return assemble_policy(config, Processors(inputs, outputs, rename_map=observed))


def assemble_policy(config: PolicyConfig, processors: Processors) -> Policy:
    """A policy with fresh weights around processors that are already there."""
    faults = size_faults(config) or config.faults() + config.feature_faults()
    if faults:
        raise ConfigError(faults)
    network = network_factory(config.type)(config)
    _start_backbones(network, config)
    if isinstance(config, SmolVLAConfig):
        assert isinstance(network, SmolVLANetwork)
        init_vlm(network.model.vlm_with_expert.vlm, config)
    if config.language is not None:
        processors = replace(processors, tokenizing=_tokenizing(processors, config.language))
    return Policy(config, network, processors)


def _tokenizing(processors: Processors, language: LanguageConfig) -> TokenizerStep:
    """How tasks are tokenized; a saved policy uses its processors' settings."""
    saved, name = processors.tokenizing, language.tokenizer_name
    if saved is None:
        return TokenizerStep(name, max_length=language.max_length, padding=language.padding)
    # A name within the folder that it was read from means nothing in another.
    return saved if saved.folder is None else replace(saved, tokenizer_name=name)


def _start_backbones(network: nn.Module, config: PolicyConfig) -> None:
    """Load the image encoders' pretrained weights, unless a complete policy is loaded next."""
    backbones = [module for module in network.modules() if isinstance(module, ResNet)]
    file = getattr(config, "backbone_weights", None)
    weights = getattr(config, "pretrained_backbone_weights", None)
    if file is not None and not backbones:
        fault = f"--policy.backbone_weights={file} has no effect: the policy reads no camera"
        raise ConfigError([fault])
    if file is not None:
        load_backbone_file(backbones, file)
    elif weights is not None and backbones and config.pretrained_path is None:
        load_imagenet(backbones, getattr(config, "vision_backbone", ""), weights)


def _check_statistics(scaling: NormalizerStep) -> None:
    for name, feature in scaling.features.items():
        mode = scaling.norm_map.get(feature.type.value, NormalizationMode.IDENTITY)
        if STATISTICS[mode] and name not in scaling.stats:
            raise UserError(
                f"the dataset has no statistics of {name}, but {mode.value} needs its "
                f"{' and '.join(STATISTICS[mode])}. Recompute the dataset's statistics, or "
                f"set {feature.type.value} to IDENTITY in --policy.normalization_mapping"
            )
