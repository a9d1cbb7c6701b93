"""How a dataset is read for a policy."""

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.train import DatasetConfig
from manyhands.data.dataset_selection import find_datasets
from manyhands.data.policy_reading import part_reading, windows_of
from manyhands.data.read_options import ReadOptions

FEATURES = {
    "input_features": {"observation.state": PolicyFeature(FeatureType.STATE, (3,))},
    "output_features": {"action": PolicyFeature(FeatureType.ACTION, (2,))},
}


def test_only_actions_have_a_window_in_act():
    config = ActConfig(chunk_size=3, n_action_steps=3, **FEATURES)
    assert windows_of(config) == {"action": [0, 1, 2]}


def test_a_policy_that_looks_back_has_windows_of_observations():
    config = DiffusionConfig(n_obs_steps=3, horizon=4, n_action_steps=2, **FEATURES)
    assert windows_of(config)["observation.state"] == [-2, -1, 0]


def test_observations_that_the_policy_does_not_use_are_skipped(tiny_dataset):
    (part,) = find_datasets(DatasetConfig(root=tiny_dataset))
    reading = part_reading(part, ActConfig(**FEATURES), ReadOptions(rename_map={"other": "x"}))
    assert sorted(reading.skip) == ["observation.environment_state", "observation.velocity"]
    assert reading.rename_map == {}
