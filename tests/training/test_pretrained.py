"""Training that starts from a policy of somebody else, on other data."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.config.resolve import read_train_config
from manyhands.errors import CheckpointError, ConfigError
from manyhands.lerobot_format.dataset.features import Feature
from manyhands.policies.build import build_policy
from manyhands.policies.load import load_policy
from manyhands.training.setup.features import with_features
from manyhands.training.start import run_training

AXES = ["height", "width", "channels"]
TOP, WRIST = "observation.images.top", "observation.images.wrist"
DATASET = {
    "action": Feature("float32", (2,)),
    "observation.state": Feature("float32", (3,)),
    "observation.environment_state": Feature("float32", (4,)),
    TOP: Feature("video", (48, 64, 3), AXES),
    WRIST: Feature("video", (48, 64, 3), AXES),
}


def visual(height: int, width: int) -> PolicyFeature:
    return PolicyFeature(FeatureType.VISUAL, (3, height, width))


def pretrained(config: type = ActConfig, num_actions: int = 2, num_joints: int = 3, **cameras):
    inputs = {"observation.state": PolicyFeature(FeatureType.STATE, (num_joints,))}
    return config(
        pretrained_path=Path("base"),
        input_features=inputs | {f"observation.images.{key}": it for key, it in cameras.items()},
        output_features={"action": PolicyFeature(FeatureType.ACTION, (num_actions,))},
    )


def refusal(policy) -> str:
    with pytest.raises(ConfigError) as caught:
        with_features(policy, DATASET)
    return str(caught.value)


def test_other_numbers_of_joints_and_actions_are_told_with_both_sizes():
    told = refusal(pretrained(num_joints=7, num_actions=9))
    state, action, remedy = told.splitlines()
    assert "reads observation.state, STATE of shape [7] (--policy.path=base)" in state
    assert "the dataset has it as STATE of shape [3]" in state
    assert "predicts action, ACTION of shape [9] (--policy.path=base)" in action
    assert "the dataset has it as ACTION of shape [2]" in action
    assert "Train from scratch: --policy.type=act" in remedy


def test_all_cameras_that_are_missing_are_told_with_one_flag():
    told = refusal(pretrained(one=visual(48, 64), two=visual(48, 64)))
    expected = {TOP: "observation.images.one", WRIST: "observation.images.two"}
    assert f"--rename_map='{json.dumps(expected)}'" in told


def test_a_camera_in_use_is_not_proposed_for_another():
    told = refusal(pretrained(top=visual(48, 64), two=visual(48, 64)))
    assert f"--rename_map='{json.dumps({WRIST: 'observation.images.two'})}'" in told


def test_images_of_another_size_are_read_where_the_weights_do_not_mind():
    policy = with_features(pretrained(top=visual(96, 128)), DATASET)
    assert policy.input_features[TOP].shape == (3, 48, 64)
    assert WRIST not in policy.input_features
    cut = replace(pretrained(DiffusionConfig, top=visual(96, 128)), crop_shape=(40, 40))
    assert with_features(cut, DATASET).input_features[TOP].shape == (3, 48, 64)


def test_images_of_another_size_are_refused_where_the_weights_depend_on_it():
    told = refusal(pretrained(DiffusionConfig, top=visual(96, 128)))
    assert "VISUAL of shape [3, 96, 128]" in told
    assert "VISUAL of shape [3, 48, 64]" in told
    assert "--dataset.image_size='[96, 128]'" in told


def test_sizes_typed_by_hand_are_taken_at_their_word():
    typed = replace(pretrained(top=visual(96, 128)), pretrained_path=None)
    assert "(--policy.input_features)" in refusal(typed)


def test_another_robots_sizes_are_taken_where_vectors_are_filled_up():
    policy = pretrained(SmolVLAConfig, 6, 6, top=visual(256, 256), wrist=visual(256, 256))
    taken = with_features(policy, DATASET)
    assert taken.input_features["observation.state"].shape == (3,)
    assert taken.output_features["action"].shape == (2,)
    assert taken.input_features[TOP].shape == (3, 48, 64)


def test_cameras_that_a_policy_can_do_without_are_left_out():
    policy = pretrained(
        SmolVLAConfig, top=visual(48, 64), wrist=visual(48, 64), hand=visual(48, 64)
    )
    taken = with_features(replace(policy, empty_cameras=1), DATASET)
    empty = "observation.images.empty_camera_0"
    assert list(taken.input_features) == ["observation.state", TOP, WRIST, empty]


def test_cameras_of_other_names_are_told_and_not_left_out():
    told = refusal(pretrained(SmolVLAConfig, top=visual(48, 64), hand=visual(48, 64)))
    assert f"--rename_map='{json.dumps({WRIST: 'observation.images.hand'})}'" in told
    told = refusal(pretrained(SmolVLAConfig, camera1=visual(9, 9), camera2=visual(9, 9)))
    expected = {TOP: "observation.images.camera1", WRIST: "observation.images.camera2"}
    assert f"--rename_map='{json.dumps(expected)}'" in told


@pytest.fixture(scope="module")
def base(tmp_path_factory, tiny_dataset, tiny_act) -> Path:
    """A run of one update on the tiny dataset."""
    run_dir = tmp_path_factory.mktemp("base") / "run"
    flags = [f"--dataset.root={tiny_dataset}", *tiny_act, f"--output_dir={run_dir}", "--steps=1"]
    run_training(read_train_config(flags))
    return run_dir


@pytest.fixture(scope="module")
def other_dataset(tmp_path_factory, record_tiny) -> Path:
    """The same features as the tiny dataset's under other names and at another scale."""
    root = tmp_path_factory.mktemp("data") / "other"
    record_tiny(root, "qpos", [12], partial(np.random.default_rng(1).normal, 50, 9))
    return root


RENAMED = """--rename_map={"qpos": "observation.state"}"""


def test_finetuning_scales_by_the_new_data_and_resuming_as_it_began(
    base, other_dataset, tiny_dataset, tmp_path
):
    common = [f"--output_dir={tmp_path / 'run'}", "--num_workers=0"]
    flags = [f"--dataset.root={other_dataset}", f"--policy.path={base}", RENAMED, "--steps=1"]
    run_training(read_train_config([*flags, *common]))
    mean = load_policy(tmp_path / "run").processors.inputs.stats["observation.state"]["mean"]
    assert abs(mean - 50).max() < 20

    # The data is another now; what was learned so far still counts on the old scale.
    changed = ["--rename_map={}", f"--dataset.root={tiny_dataset}", "--steps=2"]
    run_training(read_train_config([f"--resume={tmp_path / 'run'}", *changed]))
    resumed = load_policy(tmp_path / "run").processors.inputs.stats["observation.state"]["mean"]
    assert (resumed == mean).all()


def test_weights_are_those_of_the_run_that_policy_path_names(base, other_dataset, tmp_path):
    flags = [
        f"--dataset.root={other_dataset}",
        f"--policy.path={base}",
        RENAMED,
        "--steps=1",
        "--optimizer.lr=1e-30",
        "--num_workers=0",
        f"--output_dir={tmp_path / 'run'}",
    ]
    run_training(read_train_config(flags))
    before, after = (load_policy(path).network.state_dict() for path in (base, tmp_path / "run"))
    for name, value in before.items():
        torch.testing.assert_close(after[name], value)


def start_from(folder: Path, dataset: Path, *flags: str):
    argv = [f"--dataset.root={dataset}", f"--policy.path={folder}", "--num_workers=0", *flags]
    return run_training(read_train_config([*argv, f"--output_dir={folder.parent / 'run'}"]))


@pytest.fixture
def folder(base, tmp_path) -> Path:
    """A copy of the base policy, to be damaged."""
    load_policy(base).save(tmp_path / "policy")
    return tmp_path / "policy"


def edit(folder: Path, **changes) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"type": "atc"}, "did you mean act"),
        ({"chunk_sise": 3}, r"--policy\.chunk_sise.*chunk_size"),
        ({"latent_dim": "four"}, r"--policy\.latent_dim=four"),
    ],
)
def test_a_config_that_makes_no_sense_is_told_by_name(folder, tiny_dataset, changes, words):
    edit(folder, **changes)
    with pytest.raises(ConfigError, match=words):
        start_from(folder, tiny_dataset)


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", "\x00"])
def test_a_damaged_config_is_named(folder, tiny_dataset, content):
    (folder / "config.json").write_text(content)
    with pytest.raises(ConfigError, match=r"--policy\.path: .*config\.json"):
        start_from(folder, tiny_dataset)


def test_weights_that_do_not_fit_are_listed(folder, tiny_dataset):
    with pytest.raises(
        CheckpointError,
        match=r"(?s)--policy\.path=.* with these flags: .*of another shape: .*latent",
    ):
        start_from(folder, tiny_dataset, "--policy.latent_dim=7")


def test_a_backbones_file_starts_a_policy_and_leaves_no_trace(tmp_path):
    inputs = {
        "observation.state": PolicyFeature(FeatureType.STATE, (3,)),
        TOP: visual(32, 32),
    }
    config = ActConfig(
        input_features=inputs,
        output_features={"action": PolicyFeature(FeatureType.ACTION, (2,))},
        chunk_size=2,
        n_action_steps=2,
        dim_model=16,
        n_heads=2,
        dim_feedforward=16,
        pretrained_backbone_weights=None,
    )
    donor = build_policy(config, stats={}).network.model.backbone.state_dict()
    torch.save(donor, tmp_path / "resnet18.pth")
    seeing = replace(config, backbone_weights=tmp_path / "resnet18.pth")
    policy = build_policy(seeing, stats={})
    for name, value in policy.network.model.backbone.state_dict().items():
        assert torch.equal(value, donor[name]), name
    policy.save(tmp_path / "saved")
    assert "backbone_weights" not in json.loads((tmp_path / "saved" / "config.json").read_text())
    (tmp_path / "resnet18.pth").unlink()
    assert load_policy(tmp_path / "saved").config.backbone_weights is None
