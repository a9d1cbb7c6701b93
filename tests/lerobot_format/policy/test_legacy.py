"""Statistics among the weights, as policies had them before LeRobot had processors."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.features import FeatureType, NormalizationMode, PolicyFeature
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.policy.folder import (
    load_weights,
    read_config,
    read_processors,
    read_weights,
)
from manyhands.lerobot_format.policy.legacy import lifted_processors, without_statistics
from manyhands.policies.build import assemble_policy
from manyhands.policies.policy import Policy

NAMES = ["act_vae", "act_plain_prenorm", "diffusion_ddpm", "diffusion_ddim_sample"]
USED = {"MEAN_STD": ("mean", "std"), "MIN_MAX": ("min", "max")}
STATE = PolicyFeature(FeatureType.STATE, (2,))
CAMERA = PolicyFeature(FeatureType.VISUAL, (3, 8, 8))
ACTION = {"action": PolicyFeature(FeatureType.ACTION, (2,))}
HERE = Path("here")


def buffers(place, feature, **statistics):
    name = feature.replace(".", "_")
    return {
        f"{place}.buffer_{name}.{key}": torch.from_numpy(np.array(value, np.float32))
        for key, value in statistics.items()
    }


def as_legacy(folder: Path, target: Path) -> Path:
    """A folder whose statistics are moved into its weights."""
    config, stats = read_config(folder), read_processors(folder).inputs.stats
    places = {
        "normalize_inputs": config.input_features,
        "normalize_targets": config.output_features,
        "unnormalize_outputs": config.output_features,
    }
    moved = {}
    for place, features in places.items():
        for name, feature in features.items():
            mode = config.normalization_mapping.get(feature.type.value, "IDENTITY")
            kept = {key: stats[name][key] for key in USED.get(mode, ())}
            moved |= buffers(place, name, **kept)
    target.mkdir()
    shutil.copy(folder / "config.json", target)
    save_file(load_file(folder / "model.safetensors") | moved, target / "model.safetensors")
    return target


def loaded(folder: Path) -> Policy:
    policy = assemble_policy(read_config(folder), read_processors(folder))
    load_weights(policy.network, folder)
    return policy.eval()


@pytest.fixture(params=NAMES)
def fixture(request, shared):
    return shared / "fixtures" / "policies" / request.param


def test_losses_and_actions_are_those_of_the_same_policy_with_processors(fixture, tmp_path):
    folder = fixture / "pretrained_model"
    batch = load_file(fixture / "batch.safetensors")
    batch.pop("sampling_noise", None)
    observation = {key: value for key, value in batch.items() if key.startswith("observation")}
    results = []
    for path in (folder, as_legacy(folder, tmp_path / "legacy")):
        policy = loaded(path)
        torch.manual_seed(1234)
        loss, _ = policy.training_loss(batch)
        torch.manual_seed(99)
        results.append((loss, policy.predict_action_chunk(observation)))
    (loss, actions), (legacy_loss, legacy_actions) = results
    assert torch.equal(loss, legacy_loss)
    assert torch.equal(actions, legacy_actions)


def test_a_lifted_policy_saves_itself_in_the_new_form(fixture, tmp_path):
    folder = as_legacy(fixture / "pretrained_model", tmp_path / "legacy")
    loaded(folder).save(tmp_path / "new")
    theirs = load_file(fixture / "pretrained_model" / "model.safetensors")
    assert load_file(tmp_path / "new" / "model.safetensors").keys() == theirs.keys()
    for part in ("pre", "post"):
        name = f"policy_{part}processor.json"
        ours, own = (
            (each / name).read_text() for each in (tmp_path / "new", fixture / "pretrained_model")
        )
        assert json.loads(ours) == json.loads(own)
    lifted_stats, saved_stats = (
        read_processors(each).inputs.stats for each in (folder, tmp_path / "new")
    )
    assert saved_stats.keys() == lifted_stats.keys()


def test_weights_come_without_the_statistics(fixture, tmp_path):
    folder = fixture / "pretrained_model"
    assert (
        read_weights(as_legacy(folder, tmp_path / "legacy")).keys() == read_weights(folder).keys()
    )


def test_only_the_statistics_are_taken_from_the_weights():
    weights = {"model.normalize_inputs.weight": torch.ones(1), "normalize_inputs.x": torch.ones(1)}
    assert list(without_statistics(weights)) == ["model.normalize_inputs.weight"]


def lifted(inputs, weights, **changes):
    config = ActConfig(input_features=inputs, output_features=ACTION, **changes)
    return lifted_processors(config, weights, HERE)


ACTION_BUFFERS = buffers("normalize_targets", "action", mean=[1.0, 2.0], std=[3.0, 4.0])


@pytest.mark.parametrize("name", ["observation.images.top_left", "observation.images_top.left"])
def test_a_buffer_belongs_to_the_feature_that_the_configuration_names(name):
    mean = np.array([0.1, 0.2, 0.3], np.float32).reshape(3, 1, 1)
    weights = buffers("normalize_inputs", name, mean=mean, std=mean + 1) | ACTION_BUFFERS
    stats = lifted({name: CAMERA}, weights).inputs.stats
    assert stats.keys() == {name, "action"}
    assert np.array_equal(stats[name]["mean"], mean)
    assert stats[name]["mean"].shape == (3, 1, 1)


def test_features_that_are_written_alike_share_the_one_buffer_they_were_trained_with():
    names = ["observation.images.top_left", "observation.images_top.left"]
    mean = np.full((3, 1, 1), 0.5)
    weights = buffers("normalize_inputs", names[0], mean=mean, std=mean) | ACTION_BUFFERS
    stats = lifted(dict.fromkeys(names, CAMERA), weights).inputs.stats
    assert all(np.array_equal(stats[name]["mean"], mean) for name in names)


def test_targets_scale_what_is_learned_and_outputs_what_is_done():
    outputs = buffers("unnormalize_outputs", "action", mean=[5.0, 6.0], std=[7.0, 8.0])
    state = buffers("normalize_inputs", "observation.state", mean=[0.0, 0.0], std=[1.0, 1.0])
    both = lifted({"observation.state": STATE}, state | outputs | ACTION_BUFFERS)
    assert both.inputs.stats["action"]["mean"].tolist() == [1, 2]
    assert both.outputs.stats["action"]["mean"].tolist() == [5, 6]
    one = lifted({"observation.state": STATE}, state | outputs)
    assert one.inputs.stats["action"]["mean"].tolist() == [5, 6]


def test_a_kind_that_is_not_scaled_needs_no_buffer():
    inputs = {"observation.environment_state": PolicyFeature(FeatureType.ENV, (2,))}
    assert lifted(inputs, ACTION_BUFFERS).inputs.stats.keys() == {"action"}
    identity = dict.fromkeys(("VISUAL", "STATE"), NormalizationMode.IDENTITY)
    modes = identity | {"ACTION": NormalizationMode.MIN_MAX}
    weights = buffers("unnormalize_outputs", "action", min=[0.0, 0.0], max=[1.0, 1.0])
    stats = lifted({"observation.state": STATE}, weights, normalization_mapping=modes).outputs.stats
    assert stats["action"].keys() == {"min", "max"}


INF = float("inf")


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"model.weight": torch.ones(1)}, "neither policy_preprocessor.json nor"),
        (
            ACTION_BUFFERS,
            "statistics of observation.state are missing, but config.json normalizes it",
        ),
        (
            buffers("normalize_inputs", "observation.state", mean=[INF, 0.0], std=[1.0, 1.0]),
            "mean of observation.state is not finite, as if it was never set",
        ),
        (
            {"normalize_inputs.so100_buffer_observation_state.mean": torch.ones(2)},
            "statistics so100_buffer_observation_state belong to no feature in config.json",
        ),
    ],
)
def test_what_cannot_be_lifted_is_refused_with_the_folder(weights, words):
    with pytest.raises(CheckpointError, match=rf"here.*{words}"):
        lifted({"observation.state": STATE}, weights)
