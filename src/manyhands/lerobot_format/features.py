"""From a dataset's features to what a policy reads and predicts."""

from collections.abc import Mapping

from manyhands.config.features import FeatureType, PolicyFeature
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset_info import Feature


def policy_features(
    features: Mapping[str, Feature],
) -> tuple[dict[str, PolicyFeature], dict[str, PolicyFeature]]:
    """Inputs and outputs a policy has when it uses everything a dataset offers."""
    typed = {key: _feature_type(key, feature) for key, feature in features.items()}
    known = {
        key: PolicyFeature(kind, features[key].channel_first_shape)
        for key, kind in typed.items()
        if kind is not None
    }
    inputs = {key: each for key, each in known.items() if each.type is not FeatureType.ACTION}
    outputs = {key: each for key, each in known.items() if each.type is FeatureType.ACTION}
    return inputs, outputs


def _feature_type(key: str, feature: Feature) -> FeatureType | None:
    if feature.is_camera:
        return FeatureType.VISUAL
    if not feature.is_number:
        return None
    if key == names.ENVIRONMENT_STATE:
        return FeatureType.ENV
    if key.startswith(names.OBSERVATION):
        return FeatureType.STATE
    if key.startswith(names.ACTION):
        return FeatureType.ACTION
    return None
