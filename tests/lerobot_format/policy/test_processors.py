"""Processor files as LeRobot writes and reads them."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from manyhands.config.policies.features import FeatureType, NormalizationMode, PolicyFeature
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.files import read_tensors, write_tensors
from manyhands.lerobot_format.policy.processors import (
    NormalizerStep,
    Processors,
    TokenizerStep,
    has_processors,
    read_processors,
    write_processors,
)

ACTION = {"action": PolicyFeature(FeatureType.ACTION, (2,))}
FEATURES = {
    "observation.state": PolicyFeature(FeatureType.STATE, (2,)),
    "observation.images.top": PolicyFeature(FeatureType.VISUAL, (3, 8, 8)),
    **ACTION,
}
MODES = dict.fromkeys(("VISUAL", "STATE", "ACTION"), NormalizationMode.MEAN_STD)
STATS = {
    "observation.state": {"mean": np.array([1.0, 2.0]), "count": np.array([7])},
    "observation.images.top": {"mean": np.ones((3, 1, 1)), "count": np.array([7])},
    "action": {"mean": np.array([0.5, 0.25]), "std": np.array([1.0, 2.0])},
}
NORMALIZER_STATE = "policy_preprocessor_step_3_normalizer_processor.safetensors"
UNNORMALIZER_STATE = "policy_postprocessor_step_0_unnormalizer_processor.safetensors"


def processors(stats=STATS, **changes):
    return Processors(
        NormalizerStep(FEATURES, MODES, stats), NormalizerStep(ACTION, MODES, stats), **changes
    )


def edit(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


ACT, DIFFUSION, SMOLVLA = (
    ["act_vae", "act_plain_prenorm"],
    ["diffusion_ddpm", "diffusion_ddim_sample"],
    ["smolvla_default", "smolvla_selfattn"],
)


@pytest.mark.parametrize("name", ACT + DIFFUSION + SMOLVLA)
def test_files_read_and_written_again_are_the_same(shared, tmp_path, name):
    folder = shared / "fixtures" / "policies" / name / "pretrained_model"
    write_processors(tmp_path, read_processors(folder), "cpu")
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == sorted(path.name for path in folder.glob("policy_*"))
    for path in tmp_path.glob("*.json"):
        assert path.read_bytes() == (folder / path.name).read_bytes()
    for path in tmp_path.glob("*.safetensors"):
        theirs, ours = read_tensors(folder / path.name), read_tensors(path)
        assert theirs.keys() == ours.keys()
        assert all(torch.equal(ours[key], value) for key, value in theirs.items())


def test_statistics_are_written_as_float32_with_images_on_the_channel_axis(tmp_path):
    write_processors(tmp_path, processors(), "cuda")
    before, after = (
        read_tensors(tmp_path / name) for name in (NORMALIZER_STATE, UNNORMALIZER_STATE)
    )
    assert {tensor.dtype for tensor in (*before.values(), *after.values())} == {torch.float32}
    assert before.keys() == after.keys()
    shapes = {name: tuple(tensor.shape) for name, tensor in before.items()}
    assert shapes["observation.images.top.count"] == (1, 1, 1)
    assert shapes["observation.images.top.mean"] == (3, 1, 1)
    assert shapes["observation.state.count"] == (1,)
    assert after["observation.images.top.count"].shape == (1,)


def test_steps_stand_in_lerobots_order_and_name_the_device(tmp_path):
    write_processors(tmp_path, processors(), "cuda")
    before, after = (
        json.loads((tmp_path / f"policy_{name}processor.json").read_text())["steps"]
        for name in ("pre", "post")
    )
    assert [step["registry_name"] for step in before] == [
        "rename_observations_processor",
        "to_batch_processor",
        "device_processor",
        "normalizer_processor",
    ]
    assert before[2]["config"] == {"device": "cuda", "float_dtype": None}
    assert [step["registry_name"] for step in after] == [
        "unnormalizer_processor",
        "device_processor",
    ]
    assert after[1]["config"] == {"device": "cpu", "float_dtype": None}
    assert list(before[3]["config"]["features"]) == list(FEATURES)
    assert list(after[0]["config"]["features"]) == ["action"]


def test_without_statistics_there_is_no_state_file(tmp_path):
    write_processors(tmp_path, processors(stats={}), "cpu")
    assert not list(tmp_path.glob("*.safetensors"))
    assert "state_file" not in (tmp_path / "policy_preprocessor.json").read_text()
    assert read_processors(tmp_path) == processors(stats={})


def test_every_setting_survives_the_way_to_disk(tmp_path):
    limited = NormalizerStep(FEATURES, MODES, {}, eps=1e-6, observation_keys=["observation.state"])
    changed = Processors(limited, NormalizerStep(ACTION, MODES, {}), rename_map={"camera": "top"})
    write_processors(tmp_path, changed, "cpu")
    assert read_processors(tmp_path) == changed


def test_scalars_and_other_precisions_are_read_as_float32(tmp_path):
    write_processors(tmp_path, processors(), "cpu")
    state = {"action.mean": torch.tensor(0.5, dtype=torch.float64), "a.b.std": torch.ones(2).half()}
    write_tensors(tmp_path / NORMALIZER_STATE, state)
    stats = read_processors(tmp_path).inputs.stats
    assert stats["action"]["mean"].shape == ()
    assert stats["a.b"]["std"].dtype == np.float32


def rename_step(document):
    document["steps"][1]["registry_name"] = "to_batch_procesor"


def foreign_class(document):
    del document["steps"][1]["registry_name"]
    document["steps"][1]["class"] = "robot.Warp"


def extra_setting(document):
    document["steps"][3]["config"]["epsilon"] = 1


def wrong_mode(document):
    document["steps"][3]["config"]["norm_map"]["STATE"] = "mean_std"


def half_precision(document):
    document["steps"][2]["config"]["float_dtype"] = "float16"


def lost_state(document):
    document["steps"][3]["state_file"] = "gone.safetensors"


def escaping_state(document):
    document["steps"][3]["state_file"] = "../secret.safetensors"


def no_normalizer(document):
    document["steps"] = document["steps"][:3]


def no_features(document):
    del document["steps"][3]["config"]["features"]


def no_modes(document):
    del document["steps"][3]["config"]["norm_map"]


def two_renames(document):
    document["steps"].insert(0, document["steps"][0])


def foreign_step(document):
    document["steps"].insert(2, {"registry_name": "image_crop_processor", "config": {}})


def nameless_tokenizer(document):
    document["steps"].insert(2, {"registry_name": "tokenizer_processor", "config": {}})


def escaping_tokenizer(document):
    own = {"tokenizer_name": "../elsewhere"}
    step = {"registry_name": "tokenizer_processor", "config": own, "artifacts": own}
    document["steps"].insert(2, step)


def no_steps(document):
    document["steps"] = 3


def no_settings(document):
    document["steps"][3]["config"] = None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (rename_step, "unknown processor step to_batch_procesor; did you mean to_batch_processor"),
        (foreign_class, "unknown processor step robot.Warp"),
        (extra_setting, "normalizer_processor: unknown key epsilon; did you mean eps"),
        (wrong_mode, "norm_map.STATE is 'mean_std', not one of"),
        (half_precision, "casts inputs to float16"),
        (lost_state, r"gone\.safetensors is missing"),
        (escaping_state, "must be inside the folder"),
        (no_normalizer, "normalizer_processor is missing"),
        (no_features, "normalizer_processor has no features"),
        (no_modes, "normalizer_processor has no norm_map"),
        (two_renames, "rename_observations_processor appears twice"),
        (foreign_step, "unknown processor step image_crop_processor"),
        (nameless_tokenizer, "step tokenizer_processor has no tokenizer_name"),
        (escaping_tokenizer, r"the tokenizer \.\./elsewhere must be inside the folder"),
        (no_steps, "steps must be a list"),
        (no_settings, "steps must be a list of objects, each with a config"),
    ],
)
def test_what_cannot_be_honored_is_refused_by_name(tmp_path, change, words):
    write_processors(tmp_path, processors(), "cpu")
    edit(tmp_path / "policy_preprocessor.json", change)
    with pytest.raises(CheckpointError, match=words):
        read_processors(tmp_path)


@pytest.mark.parametrize("name", ["policy_preprocessor.json", NORMALIZER_STATE])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"\xff" * 40])
def test_a_damaged_file_is_named(tmp_path, name, content):
    write_processors(tmp_path, processors(), "cpu")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=re.escape(str(tmp_path / name))):
        read_processors(tmp_path)


@pytest.mark.parametrize("name", ["policy_preprocessor.json", "policy_postprocessor.json"])
def test_a_missing_file_is_named(tmp_path, name):
    write_processors(tmp_path, processors(), "cpu")
    (tmp_path / name).unlink()
    assert has_processors(tmp_path)
    with pytest.raises(CheckpointError, match=rf"{re.escape(name)} is missing"):
        read_processors(tmp_path)


CLASSES = {
    "rename_observations_processor": "rename_processor.RenameObservationsProcessorStep",
    "to_batch_processor": "batch_processor.AddBatchDimensionProcessorStep",
    "device_processor": "device_processor.DeviceProcessorStep",
    "normalizer_processor": "normalize_processor.NormalizerProcessorStep",
    "unnormalizer_processor": "normalize_processor.UnnormalizerProcessorStep",
}


def by_class(document):
    for step in document["steps"]:
        step["class"] = f"lerobot.processor.{CLASSES[step.pop('registry_name')]}"


def only_what_scales(document):
    document["steps"] = [step for step in document["steps"] if "normalizer" in str(step)]


def without_optional_keys(document):
    del document["name"]
    for step in document["steps"]:
        step["config"].pop("eps", None)
        step["config"].pop("float_dtype", None)
        if not step["config"]:
            del step["config"]


def with_unused_keys(document):
    document["version"] = {"lerobot": "0.7"}
    for step in document["steps"]:
        step |= {"artifacts": ["tokenizer.json"], "comment": None}


def as_floats(document):
    for step in document["steps"]:
        if "float_dtype" in step["config"]:
            step["config"]["float_dtype"] = "float32"


@pytest.mark.parametrize(
    "change", [by_class, only_what_scales, without_optional_keys, with_unused_keys, as_floats]
)
def test_every_form_of_the_same_steps_is_read_alike(tmp_path, change):
    write_processors(tmp_path, processors(), "cpu")
    before = read_processors(tmp_path)
    for name in ("policy_preprocessor.json", "policy_postprocessor.json"):
        edit(tmp_path / name, change)
    same(read_processors(tmp_path), before)


def test_the_first_names_of_files_and_steps_are_read(tmp_path):
    write_processors(tmp_path, processors(rename_map={"camera": "top"}), "cpu")
    before = read_processors(tmp_path)
    for part in ("pre", "post"):
        path = tmp_path / f"policy_{part}processor.json"
        text = path.read_text().replace("rename_observations_processor", "rename_processor")
        path.with_name(f"robot_{part}processor.json").write_text(text)
        path.unlink()
    assert has_processors(tmp_path)
    same(read_processors(tmp_path), before)


def same(one, other):
    for mine, theirs in ((one.inputs, other.inputs), (one.outputs, other.outputs)):
        assert replace(mine, stats={}) == replace(theirs, stats={})
        assert mine.stats.keys() == theirs.stats.keys()
        for name, values in mine.stats.items():
            assert values.keys() == theirs.stats[name].keys()
            assert all(
                np.array_equal(each, theirs.stats[name][key]) for key, each in values.items()
            )
    assert one.rename_map == other.rename_map


TOKENIZING = TokenizerStep("me/vlm", max_length=48, padding="longest")


@pytest.mark.parametrize("ends_lines", [True, False])
def test_how_tasks_are_read_survives_the_way_to_disk(tmp_path, ends_lines):
    tokenizing = replace(TOKENIZING, ends_lines=ends_lines)
    write_processors(tmp_path, processors(tokenizing=tokenizing), "cpu")
    assert read_processors(tmp_path).tokenizing == tokenizing


def test_a_tokenizer_within_the_folder_is_found_there(tmp_path):
    write_processors(tmp_path, processors(tokenizing=TOKENIZING), "cpu")

    def bring_along(document):
        document["steps"][3]["config"]["tokenizer_name"] = "tokenizer"
        document["steps"][3]["artifacts"] = {"tokenizer_name": "tokenizer"}

    edit(tmp_path / "policy_preprocessor.json", bring_along)
    tokenizing = read_processors(tmp_path).tokenizing
    assert tokenizing is not None and tokenizing.folder == tmp_path / "tokenizer"


def test_statistics_that_a_migration_misnamed_belong_to_their_feature(tmp_path):
    camera = "observation.images.top_left"
    features = {camera: PolicyFeature(FeatureType.VISUAL, (3, 8, 8)), **ACTION}
    stats = {"observation.images.top.left": {"mean": np.ones(3)}, "action": STATS["action"]}
    scaling = NormalizerStep(features, MODES, stats)
    write_processors(tmp_path, Processors(scaling, NormalizerStep(ACTION, MODES, stats)), "cpu")
    assert np.array_equal(read_processors(tmp_path).inputs.stats[camera]["mean"], np.ones(3))


def test_a_folder_without_processors_has_none(tmp_path):
    assert not has_processors(tmp_path)
