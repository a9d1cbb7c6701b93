"""What a policy reads and predicts of a dataset, and what to do where names do not match."""

import json
from collections.abc import Mapping
from dataclasses import replace

from manyhands.config.features import FeatureType, PolicyFeature
from manyhands.config.policy import PolicyConfig
from manyhands.errors import ConfigError, DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.feature import Feature
from manyhands.lerobot_format.features import policy_features

STATE = "observation.state"
CAMERAS = "observation.images."

USUAL_NAMES = {
    names.ACTION: ("actions", "act", "command", "commands", "control"),
    STATE: ("state", "states", "qpos", "proprio", "proprioception", "joint_positions"),
    names.ENVIRONMENT_STATE: ("environment_state", "env_state"),
}
"""What other tools call the features that LeRobot has names for."""


def with_features(policy: PolicyConfig, features: Mapping[str, Feature]) -> PolicyConfig:
    """The policy reading the features it asks for, or all that a dataset has for it."""
    inputs, outputs = policy_features(features)
    asked = policy.input_features
    usual = {
        name: each
        for name, each in inputs.items()
        if name.startswith(names.OBSERVATION) and not features[name].is_depth
        if policy.reads(each)
    }
    if names.ACTION not in outputs or not (asked or usual):
        raise DatasetError(_nothing_to_learn(features))
    faults = [
        f"the policy {verb} {name}, {feature.type.value} of shape {list(feature.shape)} "
        f"(--policy.{flag}); {_offer(name, feature, offered)}"
        for verb, flag, wanted, offered in (
            ("reads", "input_features", asked, inputs),
            ("predicts", "output_features", policy.output_features, outputs),
        )
        for name, feature in wanted.items()
        if offered.get(name) != feature
    ]
    if faults:
        raise ConfigError(faults)
    return replace(policy, input_features=asked or usual, output_features=outputs)


def unread_cameras(policy: PolicyConfig, features: Mapping[str, Feature]) -> list[str]:
    """What to tell about cameras that nobody reads."""
    unread = {
        name: feature
        for name, feature in features.items()
        if feature.is_camera and name not in policy.input_features
    }
    foreign = [name for name in unread if not name.startswith(names.OBSERVATION)]
    depth = [name for name, feature in unread.items() if feature.is_depth]
    notes = [f"NOTE: depth is not read: {', '.join(depth)}"] if depth else []
    if foreign:
        flag = rename_flag({name: CAMERAS + name for name in foreign})
        notes.append(f"NOTE: not read by their names: {', '.join(foreign)}; use them with {flag}")
    return notes


def proposed_names(features: Mapping[str, Feature]) -> dict[str, str]:
    """How features would be renamed to what LeRobot calls them, as far as names tell."""
    proposal = {}
    for name, feature in features.items():
        last = name.split(".")[-1].lower()
        usual = next((ours for ours, others in USUAL_NAMES.items() if last in others), None)
        if feature.is_camera and not name.startswith(names.OBSERVATION):
            proposal[name] = CAMERAS + name.replace(".", "_")
        elif usual is not None and usual not in features and usual not in proposal.values():
            proposal[name] = usual
    return proposal


def rename_flag(rename_map: Mapping[str, str]) -> str:
    """The flag that renames features, ready for a shell."""
    return f"--rename_map='{json.dumps(dict(rename_map))}'"


def _nothing_to_learn(features: Mapping[str, Feature]) -> str:
    own = [name for name in features if name not in names.RESERVED_FEATURES]
    lacking = "no feature `action`" if names.ACTION not in own else "nothing named `observation.*`"
    proposal = proposed_names({name: features[name] for name in own})
    remedy = f"rename what it has: {rename_flag(proposal)}" if proposal else "record them"
    return f"the dataset has {lacking}; it has {', '.join(own)}\n{remedy}"


def _offer(name: str, wanted: PolicyFeature, offered: Mapping[str, PolicyFeature]) -> str:
    if name in offered:
        found = offered[name]
        return f"the dataset has it as {found.type.value} of shape {list(found.shape)}"
    alike = [other for other, feature in offered.items() if feature.type is wanted.type]
    fits = [other for other in alike if offered[other].shape == wanted.shape]
    hint = ""
    if (wanted.type is FeatureType.VISUAL and alike) or fits:
        hint = f"; perhaps {rename_flag({(fits or alike)[0]: name})}"
    return f"the dataset has {', '.join(offered)}{hint}"
