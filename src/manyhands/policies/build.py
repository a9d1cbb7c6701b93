"""From a configuration to a policy: the one place that knows which network a type has."""

from collections.abc import Mapping

from torch import nn

from manyhands.config.act import ActConfig
from manyhands.config.features import FeatureType, NormalizationMode
from manyhands.config.policy import PolicyConfig, visual_features
from manyhands.errors import ConfigError, UserError
from manyhands.lerobot_format.processor import Processors, Scaling
from manyhands.policies.act.network import ActNetwork
from manyhands.policies.actions import ActionPlan, ActionQueue, TemporalEnsemble
from manyhands.policies.normalize import STATISTICS
from manyhands.policies.policy import Policy
from manyhands.policies.vision import load_imagenet
from manyhands.types import Stats

Modes = dict[str, NormalizationMode]

NETWORKS = (ActConfig.type,)
"""Types of policies that have a network."""


def build_policy(
    config: PolicyConfig, stats: Stats, rename_map: Mapping[str, str] | None = None
) -> Policy:
    """A policy with fresh weights, scaled by a dataset's statistics; with none, values stay raw.

    `rename_map` tells what a dataset, or a robot, calls the features the policy reads.
    """
    # A third-party policy may scale nothing and have no such field.
    modes: Modes = getattr(config, "normalization_mapping", {})
    features = config.input_features | config.output_features
    inputs = Scaling(features, modes, stats)
    if stats:
        _check_statistics(inputs)
    outputs = Scaling(config.output_features, modes, stats)
    observed = {
        key: name for key, name in (rename_map or {}).items() if name in config.input_features
    }
    return assemble_policy(config, Processors(inputs, outputs, rename_map=observed))


def assemble_policy(config: PolicyConfig, processors: Processors) -> Policy:
    """A policy with fresh weights around processors that are already there."""
    faults = config.faults() + feature_faults(config)
    if faults:
        raise ConfigError(faults)
    network, plan = _network_and_plan(config)
    return Policy(config, network, processors, plan)


def feature_faults(config: PolicyConfig) -> list[str]:
    """Everything about a configuration's features that no policy can work with."""
    inputs, action = config.input_features, config.output_features.get("action")
    state = inputs.get("observation.state")
    environment = [name for name, item in inputs.items() if item.type is FeatureType.ENV]
    cameras = visual_features(config)
    rules = [
        (
            state is None or state.type is not FeatureType.STATE,
            "the policy needs the feature observation.state of type STATE; "
            f"--policy.input_features has {', '.join(inputs) or 'nothing'}",
        ),
        (
            not cameras and not environment,
            "the policy needs a camera or observation.environment_state; "
            f"--policy.input_features has {', '.join(inputs) or 'nothing'}",
        ),
        (
            environment not in ([], ["observation.environment_state"]),
            f"features of type ENV must be observation.environment_state alone, not {environment}",
        ),
        (
            action is None or action.type is not FeatureType.ACTION or len(action.shape) != 1,
            "the policy needs the feature action, a vector of type ACTION; "
            f"--policy.output_features has {', '.join(config.output_features) or 'nothing'}",
        ),
    ]
    shapes = [(name, inputs[name].shape) for name in cameras]
    rules += [
        (
            len(shape) != 3 or shape[0] != 3,
            f"{name} must have shape (3, height, width), not {shape}",
        )
        for name, shape in shapes
    ]
    return [sentence for is_wrong, sentence in rules if is_wrong]


def _network_and_plan(config: PolicyConfig) -> tuple[nn.Module, ActionPlan]:
    match config:
        case ActConfig():
            return _act_network(config), _act_plan(config)
    raise ConfigError([f"--policy.type={config.type} has no network"])


def _act_network(config: ActConfig) -> ActNetwork:
    network, weights = ActNetwork(config), config.pretrained_backbone_weights
    is_replaced = config.pretrained_path is not None
    if weights is not None and visual_features(config) and not is_replaced:
        load_imagenet(network.model.backbone, config.vision_backbone, weights)
    return network


def _act_plan(config: ActConfig) -> ActionPlan:
    if config.temporal_ensemble_coeff is None:
        return ActionQueue(config.n_action_steps)
    return TemporalEnsemble(config.temporal_ensemble_coeff, config.chunk_size)


def _check_statistics(scaling: Scaling) -> None:
    for name, feature in scaling.features.items():
        mode = scaling.norm_map.get(feature.type.value, NormalizationMode.IDENTITY)
        if STATISTICS[mode] and name not in scaling.stats:
            raise UserError(
                f"the dataset has no statistics of {name}, but {mode.value} needs its "
                f"{' and '.join(STATISTICS[mode])}; recompute the dataset's statistics or set "
                f"{feature.type.value} to IDENTITY in --policy.normalization_mapping"
            )
