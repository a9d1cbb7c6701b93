"""Processor files as LeRobot writes and reads them."""

import json

import numpy as np
import pytest
import torch

from manyhands.config.features import FeatureType, NormalizationMode, PolicyFeature
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.files import read_tensors, write_tensors
from manyhands.lerobot_format.processor import (
    Processors,
    Scaling,
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
    return Processors(Scaling(FEATURES, MODES, stats), Scaling(ACTION, MODES, stats), **changes)


def edit(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("name", ["act_vae", "act_plain_prenorm"])
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
    limited = Scaling(FEATURES, MODES, {}, eps=1e-6, observation_keys=["observation.state"])
    changed = Processors(limited, Scaling(ACTION, MODES, {}), rename_map={"camera": "top"})
    write_processors(tmp_path, changed, "cpu")
    assert read_processors(tmp_path) == changed


def test_scalars_and_other_precisions_are_read_as_float32(tmp_path):
    write_processors(tmp_path, processors(), "cpu")
    state = {"action.mean": torch.tensor(0.5, dtype=torch.float64), "a.b.std": torch.ones(2).half()}
    write_tensors(tmp_path / NORMALIZER_STATE, state)
    stats = read_processors(tmp_path).inputs.stats
    assert stats["action"]["mean"].shape == ()
    assert stats["a.b"]["std"].dtype == np.float32


def test_extra_keys_beside_the_settings_are_ignored(tmp_path):
    write_processors(tmp_path, processors(), "cpu")

    def add(document):
        document["version"] = 2
        document["steps"][0]["artifacts"] = []

    edit(tmp_path / "policy_preprocessor.json", add)
    assert read_processors(tmp_path).rename_map == {}


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
        (escaping_state, "must lie in the folder itself"),
        (no_normalizer, "no normalizer_processor step"),
        (no_steps, "steps must be a list"),
        (no_settings, "steps must be a list of objects with a config"),
    ],
)
def test_what_cannot_be_honored_is_refused_by_name(tmp_path, change, words):
    write_processors(tmp_path, processors(), "cpu")
    edit(tmp_path / "policy_preprocessor.json", change)
    with pytest.raises(CheckpointError, match=words):
        read_processors(tmp_path)


def test_a_folder_without_processors_is_told_to_migrate(tmp_path):
    with pytest.raises(CheckpointError, match=r"policy_preprocessor\.json is missing.*migrated"):
        read_processors(tmp_path)
