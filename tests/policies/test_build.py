"""Policies from configurations, and configurations that make none."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from manyhands.config.policies.features import FeatureType, NormalizationMode, PolicyFeature
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.errors import ConfigError, UserError
from manyhands.lerobot_format.names import LANGUAGE_TOKENS
from manyhands.policies.build import build_policy
from manyhands.policies.load import load_policy

STATE, ENV = "observation.state", "observation.environment_state"


def stats_of(config):
    features = config.input_features | config.output_features
    return {
        name: {"mean": np.full(feature.shape[0], 2.0), "std": np.full(feature.shape[0], 4.0)}
        for name, feature in features.items()
    }


def test_a_built_policy_scales_by_the_statistics_but_not_the_environment(golden):
    config = golden.act_config()
    policy, batch = build_policy(config, stats_of(config)), golden.batch_of(config)
    prepared = policy.prepare(batch)
    for name in (STATE, "action"):
        torch.testing.assert_close(prepared[name], (batch[name] - 2) / 4)
    assert torch.equal(prepared[ENV], batch[ENV])


def test_raw_actions_are_the_unscaled_chunk(golden):
    config = golden.act_config()
    policy, batch = build_policy(config, stats_of(config)).eval(), golden.batch_of(config)
    with torch.no_grad():
        chunk = policy.network.predict(policy.prepare_observation(batch), {})
    torch.testing.assert_close(policy.predict_action_chunk(batch), chunk * 4 + 2)


def test_a_saved_policy_comes_back_bit_for_bit(golden, tmp_path):
    config = golden.act_config(temporal_ensemble_coeff=0.1, n_action_steps=1)
    policy, batch = build_policy(config, stats_of(config)), golden.batch_of(config)
    policy.save(tmp_path / "first")
    loaded = load_policy(tmp_path / "first")
    loaded.save(tmp_path / "second")
    names = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "second").iterdir())
    for name in names:
        first, second = (tmp_path / folder / name for folder in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()
    assert torch.equal(policy.predict_action_chunk(batch), loaded.predict_action_chunk(batch))


def without(features, name):
    return {key: feature for key, feature in features.items() if key != name}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"input_features": {}}, r"needs the feature observation\.state"),
        ({"input_features": {}}, r"needs the feature observation\.state"),
        ({"output_features": {}}, "needs the feature action"),
        (
            {"input_features": {ENV: PolicyFeature(FeatureType.ENV, (5,))}},
            r"needs the feature observation\.state",
        ),
        (
            {
                "input_features": {
                    STATE: PolicyFeature(FeatureType.STATE, (6,)),
                    "observation.image": PolicyFeature(FeatureType.VISUAL, (64, 96, 3)),
                }
            },
            r"observation\.image must have shape \(3, height, width\), not \(64, 96, 3\)",
        ),
        ({"n_heads": 5}, "must be divisible"),
    ],
)
def test_what_cannot_be_built_is_told(golden, changes, words):
    with pytest.raises(ConfigError, match=words):
        build_policy(golden.act_config(**changes), stats={})


def test_all_faults_are_told_at_once(golden):
    with pytest.raises(ConfigError) as caught:
        build_policy(golden.act_config(input_features={}, dropout=2.0), stats={})
    assert len(caught.value.faults) == 2


def test_a_dataset_without_a_needed_statistic_is_refused(golden):
    config = golden.act_config()
    with pytest.raises(
        UserError, match=r"no statistics of action, but MEAN_STD needs its mean and"
    ):
        build_policy(config, without(stats_of(config), "action"))
    quantiles = dict.fromkeys(("STATE", "ACTION"), NormalizationMode.QUANTILES)
    with pytest.raises(UserError, match=r"observation\.state has no statistic q01"):
        build_policy(golden.act_config(normalization_mapping=quantiles), stats_of(config))


def test_pretrained_weights_are_asked_for_only_with_cameras(golden):
    config = golden.act_config(pretrained_backbone_weights="ResNet50_Weights.IMAGENET1K_V1")
    build_policy(config, stats={})
    config = golden.act_config(
        cameras=True, pretrained_backbone_weights="ResNet50_Weights.IMAGENET1K_V1"
    )
    with pytest.raises(UserError, match=r"does not match --policy\.vision_backbone=resnet18"):
        build_policy(config, stats={})


@pytest.fixture
def smolvla(tiny_vlm) -> SmolVLAConfig:
    camera = PolicyFeature(FeatureType.VISUAL, (3, 24, 32))
    return SmolVLAConfig(
        input_features={
            STATE: PolicyFeature(FeatureType.STATE, (2,)),
            "observation.images.top": camera,
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (2,))},
        vlm_model_name=str(tiny_vlm),
        num_vlm_layers=1,
        chunk_size=3,
        n_action_steps=3,
        resize_imgs_with_padding=(32, 32),
        random_vlm=True,
    )


def test_tasks_are_read_as_the_configuration_says(smolvla):
    config = replace(smolvla, tokenizer_max_length=9, pad_language_to="max_length")
    assert build_policy(config, {}).tokenized({"task": ["go"]})[LANGUAGE_TOKENS].shape == (1, 9)
    assert build_policy(smolvla, {}).tokenized({"task": ["go"]})[LANGUAGE_TOKENS].shape == (1, 3)


def test_tasks_that_are_tokens_already_stay_as_they_are(smolvla):
    batch = {LANGUAGE_TOKENS: torch.ones(1, 4), "task": ["go"]}
    assert build_policy(smolvla, {}).tokenized(batch) is batch


def test_a_tokenizer_that_came_with_a_policy_is_named_by_its_model_when_saved(
    smolvla, tiny_vlm, tmp_path
):
    build_policy(smolvla, {}).save(tmp_path / "first")
    shutil.copytree(tiny_vlm, tmp_path / "first" / "tokenizer")
    path = tmp_path / "first" / "policy_preprocessor.json"
    document = json.loads(path.read_text())
    (step,) = (each for each in document["steps"] if "tokenizer_name" in each["config"])
    step["config"]["tokenizer_name"] = "tokenizer"
    step["artifacts"] = {"tokenizer_name": "tokenizer"}
    path.write_text(json.dumps(document))

    load_policy(tmp_path / "first", device="cpu").save(tmp_path / "second")
    saved = json.loads((tmp_path / "second" / path.name).read_text())
    (step,) = (each for each in saved["steps"] if "tokenizer_name" in each["config"])
    assert step["config"]["tokenizer_name"] == str(tiny_vlm)
    assert "artifacts" not in step


def test_weights_of_several_types_keep_them_where_a_policy_moves(smolvla):
    policy = build_policy(replace(smolvla, load_vlm_weights=True), {})
    kinds = {name: value.dtype for name, value in policy.network.state_dict().items()}
    assert set(kinds.values()) == {torch.bfloat16, torch.float32}
    policy.to("cpu", torch.float32)
    assert {name: each.dtype for name, each in policy.network.state_dict().items()} == kinds
    policy.to("cpu", torch.float64)
    assert {each.dtype for each in policy.network.parameters()} == {torch.float64}
