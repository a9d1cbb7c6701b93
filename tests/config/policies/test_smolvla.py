"""SmolVLA's configuration."""

import json
from dataclasses import replace

import pytest

from manyhands.config.policies.base import NOT_LEROBOTS
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.policies.smolvla import RtcConfig, SmolVLAConfig
from manyhands.config.schema.decoding import encode
from manyhands.config.schema.json_values import decode
from manyhands.config.sections.optim import AdamWConfig, CosineDecayWithWarmupConfig

STATE = PolicyFeature(FeatureType.STATE, (6,))
CAMERA = PolicyFeature(FeatureType.VISUAL, (3, 48, 64))
ACTION = PolicyFeature(FeatureType.ACTION, (6,))
TOP, EMPTY = "observation.images.top", "observation.images.empty_camera_0"
CONFIG = SmolVLAConfig(
    input_features={"observation.state": STATE, TOP: CAMERA}, output_features={"action": ACTION}
)


def test_presets_are_lerobots():
    assert CONFIG.optimizer_preset() == AdamWConfig(
        lr=1e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=1e-10, grad_clip_norm=10.0
    )
    assert CONFIG.scheduler_preset() == CosineDecayWithWarmupConfig(
        peak_lr=1e-4, decay_lr=2.5e-6, num_warmup_steps=1000, num_decay_steps=30_000
    )


def test_presets_follow_the_fields():
    changes = {"scheduler_decay_lr": 1e-7, "scheduler_decay_steps": 9, "scheduler_warmup_steps": 3}
    changed = replace(CONFIG, optimizer_lr=1e-3, optimizer_grad_clip_norm=1.0, **changes)
    assert changed.optimizer_preset().lr == 1e-3
    assert changed.optimizer_preset().grad_clip_norm == 1.0
    assert changed.scheduler_preset() == CosineDecayWithWarmupConfig(
        peak_lr=1e-3, decay_lr=1e-7, num_warmup_steps=3, num_decay_steps=9
    )


def test_one_observation_and_a_chunk_of_actions_make_a_sample():
    assert CONFIG.observation_offsets is None
    assert CONFIG.action_offsets == list(range(50))
    assert replace(CONFIG, n_action_steps=7).num_executed_actions == 7


def test_fields_and_defaults_are_lerobots_in_its_order(shared):
    path = shared / "fixtures/policies/smolvla_default/pretrained_model/config.json"
    document = json.loads(path.read_text())
    assert list(encode(SmolVLAConfig(), without=NOT_LEROBOTS)) == list(document)
    own = {"device", "chunk_size", "n_action_steps", "max_state_dim", "max_action_dim"}
    own |= {"input_features", "output_features", "num_vlm_layers", "vlm_model_name"}
    own |= {"resize_imgs_with_padding"}
    default = encode(SmolVLAConfig(), without=NOT_LEROBOTS)
    assert {key for key in document if default[key] != document[key]} == own


def test_what_this_package_adds_is_not_in_lerobots_files():
    stored = encode(replace(CONFIG, rtc_config=RtcConfig(), random_vlm=True), without=NOT_LEROBOTS)
    assert "random_vlm" not in stored
    assert "mode" not in stored["rtc_config"]


def test_how_it_is_computed_is_not_lerobots_concern():
    own = replace(CONFIG, exact=True, gradient_checkpointing=True)
    assert encode(own, without=NOT_LEROBOTS) == encode(CONFIG, without=NOT_LEROBOTS)


def test_it_trains_in_bf16_unless_it_is_to_be_exact():
    assert CONFIG.trains_in_bf16
    assert not replace(CONFIG, exact=True).trains_in_bf16


RTC = {
    "enabled": False,
    "prefix_attention_schedule": "EXP",
    "max_guidance_weight": 5.0,
    "execution_horizon": 8,
    "debug": True,
    "debug_maxlen": 9,
}


def test_how_lerobots_rollouts_join_chunks_is_kept_for_them():
    read = decode(SmolVLAConfig, {"rtc_config": RTC})
    assert encode(read, without=NOT_LEROBOTS)["rtc_config"] == RTC


def test_files_of_later_releases_are_read():
    read = decode(SmolVLAConfig, {"rtc_config": {"enabled": False, "mode": "guided"}})
    assert read.rtc_config == RtcConfig(enabled=False)


def test_empty_cameras_stand_behind_all_inputs_and_are_not_recorded():
    padded = replace(CONFIG, empty_cameras=1)
    assert list(padded.input_features) == ["observation.state", TOP, EMPTY]
    assert padded.input_features[EMPTY].shape == (3, 480, 640)
    assert list(padded.recorded_features) == ["observation.state", TOP]
    assert replace(padded, device="cpu").input_features == padded.input_features
    assert SmolVLAConfig(empty_cameras=1).input_features == {}


def test_cameras_may_be_missing_and_nothing_else():
    assert CONFIG.is_optional_input(TOP)
    assert not CONFIG.is_optional_input("observation.state")
    assert not CONFIG.is_optional_input("action")


def test_states_and_cameras_are_read():
    assert CONFIG.reads(STATE) and CONFIG.reads(CAMERA)
    assert not CONFIG.reads(PolicyFeature(FeatureType.ENV, (6,)))


def test_a_usual_robot_has_no_faults():
    assert CONFIG.faults() == CONFIG.feature_faults() == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"n_obs_steps": 2}, "--policy.n_obs_steps=2"),
        ({"chunk_size": 0, "n_action_steps": 1}, "--policy.chunk_size=0"),
        ({"n_action_steps": 51}, "--policy.n_action_steps=51"),
        ({"num_steps": 0}, "--policy.num_steps=0"),
        ({"empty_cameras": -1}, "--policy.empty_cameras=-1"),
        ({"tokenizer_max_length": 0}, "--policy.tokenizer_max_length=0"),
        ({"attention_mode": "none"}, "--policy.attention_mode=none"),
        ({"pad_language_to": "shortest"}, "--policy.pad_language_to=shortest"),
        ({"resize_imgs_with_padding": (512, 384)}, "--policy.resize_imgs_with_padding=[512, 384]"),
        ({"expert_width_multiplier": 0.0}, "--policy.expert_width_multiplier=0.0"),
        ({"min_period": 5.0}, "--policy.min_period=5.0"),
        ({"rtc_config": RtcConfig(mode="trained")}, "--policy.rtc_config.mode"),
        ({"use_cache": False}, "--policy.use_cache=false"),
        ({"compile_model": True}, "--policy.compile_model=true"),
        ({"use_delta_joint_actions_aloha": True}, "--policy.use_delta_joint_actions_aloha=true"),
    ],
    ids=str,
)
def test_values_that_cannot_work_are_told_with_their_flag(changes, told):
    (fault,) = replace(CONFIG, **changes).faults()
    assert fault.startswith(told)


@pytest.mark.parametrize(
    ("inputs", "outputs", "told"),
    [
        ({"observation.state": PolicyFeature(FeatureType.STATE, (33,))}, {}, "max_state_dim=32"),
        ({}, {"action": PolicyFeature(FeatureType.ACTION, (40,))}, "max_action_dim=32"),
        ({TOP: PolicyFeature(FeatureType.VISUAL, (1, 48, 64))}, {}, "must have shape (3,"),
    ],
)
def test_features_that_do_not_fit_are_told(inputs, outputs, told):
    config = replace(
        CONFIG,
        input_features=CONFIG.input_features | inputs,
        output_features=CONFIG.output_features | outputs,
    )
    (fault,) = config.feature_faults()
    assert told in fault


def test_a_state_and_a_real_camera_are_needed():
    blind = replace(CONFIG, input_features={"observation.state": STATE}, empty_cameras=1)
    assert ["needs a camera" in fault for fault in blind.feature_faults()] == [True]
    stateless = replace(CONFIG, input_features={TOP: CAMERA})
    assert ["observation.state" in fault for fault in stateless.feature_faults()] == [True]


def test_files_hold_what_every_release_knows_of_real_time_chunking():
    assert "mode" not in encode(RtcConfig(), without=NOT_LEROBOTS)
    assert encode(RtcConfig())["mode"] == "guided"
