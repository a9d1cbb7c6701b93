"""Matches the features of a policy with those of a dataset, and suggests flags for mismatches."""

import json
from collections.abc import Mapping
from dataclasses import replace

from manyhands.config.policies.base import PolicyConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.errors import ConfigError, DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.features import Feature
from manyhands.lerobot_format.dataset.meta import policy_features

STATE = "observation.state"
CAMERAS = "observation.images."

USUAL_NAMES = {
    names.ACTION: ("actions", "act", "command", "commands", "control"),
    STATE: ("state", "states", "qpos", "proprio", "proprioception", "joint_positions"),
    names.ENVIRONMENT_STATE: ("environment_state", "env_state"),
}
"""Names in other tools for LeRobot's features."""

Features = Mapping[str, PolicyFeature]


def with_features(policy: PolicyConfig, features: Mapping[str, Feature]) -> PolicyConfig:
    """The policy with the features it names, or all usable features of a dataset."""
    inputs, outputs = policy_features(features)
    requested = _in_sizes_of(_wanted(policy, inputs), inputs, policy)
    predicted = _in_sizes_of(policy.output_features, outputs, policy)
    usual = {
        name: each
        for name, each in inputs.items()
        if name.startswith(names.OBSERVATION) and not features[name].is_depth
        if policy.reads(each)
    }
    if names.ACTION not in outputs or not (requested or usual):
        raise DatasetError(_nothing_to_learn(features))
    if not requested and policy.needs_scene:
        _check_scene(policy, usual, features)
    faults = [
        *_misfits("reads", requested, inputs, _source(policy, "input_features")),
        *_misfits("predicts", predicted, outputs, _source(policy, "output_features")),
    ]
    if faults:
        raise ConfigError(faults + _remedies(requested, inputs, policy))
    return replace(policy, input_features=dict(requested or usual), output_features=outputs)


def _check_scene(policy: PolicyConfig, usual: Features, features: Mapping[str, Feature]) -> None:
    """Reject inputs without the robot's state, or with nothing else, unless flags name them."""
    kinds = {feature.type for feature in usual.values()}
    proposal = proposed_names(features)
    vectors = [name for name, item in usual.items() if item.type is FeatureType.STATE]
    lines = []
    if STATE not in usual:
        lines.append(f"the policy {policy.type} needs observation.state; the dataset has none")
        proposal |= {} if STATE in proposal.values() else dict.fromkeys(vectors[:1], STATE)
    elif not kinds & {FeatureType.VISUAL, FeatureType.ENV}:
        lines.append(
            "the dataset has the robot's state and nothing to see: no camera, no "
            "observation.environment_state. LeRobot rejects such a policy"
        )
        others = [name for name in vectors if name != STATE]
        proposal |= {} if proposal else dict.fromkeys(others[:1], names.ENVIRONMENT_STATE)
    if lines and proposal:
        lines.append(f"Rename its features: {rename_flag(proposal)}")
    if lines and STATE in usual:
        flag = input_flag({STATE: usual[STATE]})
        lines.append(f"Train on the state alone, for manyhands only: {flag}")
    if lines:
        raise DatasetError("\n".join(lines))


def input_flag(features: Features) -> str:
    """The flag that selects inputs, ready for a shell."""
    document = {
        name: {"type": each.type.value, "shape": list(each.shape)}
        for name, each in features.items()
    }
    return f"--policy.input_features='{json.dumps(document)}'"


def _wanted(policy: PolicyConfig, offered: Features) -> Features:
    """The inputs of a policy; a pretrained one may lack some cameras."""
    requested = policy.recorded_features
    lacking = [name for name in requested if name not in offered and policy.is_optional_input(name)]
    has_one = any(name in offered and policy.is_optional_input(name) for name in requested)
    # A camera under another name is probably the missing one.
    strangers = [
        name
        for name, feature in offered.items()
        if feature.type is FeatureType.VISUAL and name not in requested
    ]
    if policy.pretrained_path is None or not has_one or strangers:
        return requested
    return {name: feature for name, feature in requested.items() if name not in lacking}


def _in_sizes_of(wanted: Features, offered: Features, policy: PolicyConfig) -> Features:
    """The features of a policy; a pretrained one may adopt the sizes of a dataset."""
    if policy.pretrained_path is None:
        return wanted
    return {
        name: offered[name] if _accepts_size(policy, feature, offered.get(name)) else feature
        for name, feature in wanted.items()
    }


def _accepts_size(policy: PolicyConfig, wanted: PolicyFeature, found: PolicyFeature | None) -> bool:
    """Whether the weights of a policy accept another size of a feature."""
    if policy.takes_any_image_size and _is_other_size(wanted, found):
        return True
    if found is None or not policy.takes_any_vector_size or wanted.type is not found.type:
        return False
    return len(wanted.shape) == len(found.shape) == 1


def _is_other_size(wanted: PolicyFeature, found: PolicyFeature | None) -> bool:
    """Whether two features are cameras that differ only in height and width."""
    if found is None or found.type is not FeatureType.VISUAL or wanted.type is not found.type:
        return False
    return found.shape[0] == wanted.shape[0] and found.shape != wanted.shape


def _source(policy: PolicyConfig, flag: str) -> str:
    """The flag that defines the features of a policy."""
    path = policy.pretrained_path
    return f"--policy.{flag}" if path is None else f"--policy.path={path}"


def _misfits(verb: str, wanted: Features, offered: Features, source: str) -> list[str]:
    """Features that a policy needs and a dataset lacks, or has with another shape."""
    return [
        f"the policy {verb} {name}, {_describe(feature)} ({source}); the dataset has "
        + (f"it as {_describe(offered[name])}" if name in offered else ", ".join(offered))
        for name, feature in wanted.items()
        if offered.get(name) != feature
    ]


def _describe(feature: PolicyFeature) -> str:
    return f"{feature.type.value} of shape {list(feature.shape)}"


def _remedies(requested: Features, inputs: Features, policy: PolicyConfig) -> list[str]:
    """Flags that may fix a mismatch."""
    remedies = []
    proposal = _candidates(requested, inputs)
    if proposal:
        remedies.append(f"Try {rename_flag(proposal)}")
    sizes = {
        tuple(feature.shape[1:])
        for name, feature in requested.items()
        if _is_other_size(feature, inputs.get(name))
    }
    if len(sizes) == 1:
        remedies.append(f"Try --dataset.image_size='{list(*sizes)}'")
    if not remedies and policy.pretrained_path is not None:
        scratch = f"Train from scratch: --policy.type={policy.type}"
        remedies.append(f"weights for another robot do not fit. {scratch}")
    return remedies


def _candidates(requested: Features, inputs: Features) -> dict[str, str]:
    """Unused features of a dataset that may replace missing ones."""
    free = {name: feature for name, feature in inputs.items() if name not in requested}
    proposal: dict[str, str] = {}
    for name, wanted in requested.items():
        alike = [
            other
            for other, found in free.items()
            if found.type is wanted.type and other not in proposal
            if found.shape == wanted.shape or wanted.type is FeatureType.VISUAL
        ]
        if name not in inputs and alike:
            proposal[alike[0]] = name
    return proposal


def unread_cameras(policy: PolicyConfig, features: Mapping[str, Feature]) -> list[str]:
    """Notes on cameras that the policy does not use."""
    unread = {
        name: feature
        for name, feature in features.items()
        if feature.is_camera and name not in policy.input_features
    }
    foreign = [name for name in unread if not name.startswith(names.OBSERVATION)]
    depth = [name for name, feature in unread.items() if feature.is_depth]
    notes = [f"NOTE: depth cameras not used: {', '.join(depth)}"] if depth else []
    if foreign:
        flag = rename_flag({name: CAMERAS + name for name in foreign})
        notes.append(f"NOTE: cameras not used: {', '.join(foreign)}. To use them: {flag}")
    return notes


def proposed_names(features: Mapping[str, Feature]) -> dict[str, str]:
    """Proposed renames to LeRobot's names, as far as names match."""
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
    remedy = f"Rename its features: {rename_flag(proposal)}" if proposal else "Record them"
    return f"the dataset has {lacking}; it has {', '.join(own)}\n{remedy}"
