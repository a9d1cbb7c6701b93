"""Policies on what a dataset has: a run of one step, at once or after one hint."""

import shutil

import pytest
from following import Follower, hints
from specimens import read_json, record, write_json

from manyhands.config.resolve import read_train_config
from manyhands.errors import UserError
from manyhands.training.start import run_training

STATE, ENVIRONMENT = "observation.state", "observation.environment_state"
AXES = ["height", "width", "channels"]


def numbers(**shapes):
    return {
        {"state": STATE, "environment": ENVIRONMENT}.get(key, key): {
            "dtype": "float32",
            "shape": list(shape),
            "names": None,
        }
        for key, shape in shapes.items()
    }


def camera(height, width):
    return {"dtype": "image", "shape": [height, width, 3], "names": AXES}


@pytest.fixture
def trained(tmp_path, tiny_act):
    """Records features and trains one step; returns the hints that were followed."""

    def run(features, *flags, damage=lambda root: None):
        root = record(tmp_path / "data", features)
        damage(root)
        argv = [*tiny_act, f"--dataset.root={root}", "--steps=1", "--batch_size=2", *flags]
        argv += [f"--output_dir={tmp_path / 'run'}", "--save_checkpoint=false"]
        followed = []
        try:
            run_training(read_train_config(argv))
        except UserError as error:
            followed = hints(str(error))[:1]
            assert followed, error
            argv = Follower(tmp_path, root).follow(followed[0], argv)
            run_training(read_train_config(argv))
        assert (tmp_path / "run" / "metrics.jsonl").read_text().count("\n") == 1
        return followed

    return run


@pytest.mark.parametrize(
    "shapes",
    [
        {"state": (1,), "environment": (1,), "action": (1,)},
        {"state": (2, 3), "environment": (2, 2), "action": (2, 2)},
    ],
)
def test_scalars_and_nested_numbers_are_read_as_vectors(trained, shapes):
    assert trained(numbers(**shapes)) == []


def test_states_declared_without_a_shape_are_scalars(trained):
    def declare(root):
        path = root / "meta/info.json"
        document = read_json(path)
        document["features"][STATE]["shape"] = []
        write_json(path, document)

    assert trained(numbers(state=(1,), environment=(2,), action=(2,)), damage=declare) == []


def test_the_state_alone_is_refused_with_the_reason_and_the_flag(trained):
    (hint,) = trained(numbers(state=(2,), action=(2,)))
    assert hint.startswith("--policy.input_features=")


def test_another_vector_can_be_what_the_policy_sees(trained):
    features = numbers(state=(2,), action=(2,)) | numbers(**{"observation.force": (3,)})
    (hint,) = trained(features)
    assert hint == '--rename_map=\'{"observation.force": "observation.environment_state"}\''


def test_names_of_other_tools_are_renamed(trained):
    features = numbers(qpos=(2,), env_state=(3,), actions=(2,))
    (hint,) = trained(features)
    assert hint.startswith("--rename_map=")


def test_a_state_under_another_name_is_found(trained):
    features = numbers(**{"observation.joints": (2,)}) | numbers(environment=(2,), action=(2,))
    assert trained(features) == ['--rename_map=\'{"observation.joints": "observation.state"}\'']


def test_missing_task_texts_do_not_matter_to_a_policy_without_language(trained):
    features = numbers(state=(2,), environment=(2,), action=(2,))
    assert trained(features, damage=lambda root: (root / "meta/tasks.parquet").unlink()) == []


@pytest.mark.parametrize(("kind", "num_hints"), [("act", 0), ("diffusion", 1)])
def test_cameras_of_different_sizes_train_or_are_resized(tmp_path, kind, num_hints):
    from manyhands.policies.build import build_policy
    from manyhands.training.setup.data import alone, open_training_data

    features = {"observation.images.a": camera(16, 16), "observation.images.b": camera(24, 32)}
    root = record(tmp_path / "data", features | numbers(state=(2,), action=(2,)))
    argv = [f"--policy.type={kind}", "--policy.pretrained_backbone_weights=null"]
    argv += [f"--dataset.root={root}"]
    if kind == "diffusion":
        argv += ["--policy.down_dims=[8,16]", "--policy.horizon=4", "--policy.n_action_steps=2"]
        argv += ["--policy.drop_n_last_frames=0"]
    followed = []
    for _ in range(2):
        data, config = open_training_data(read_train_config(argv), alone)
        try:
            policy = build_policy(config.policy, data.stats)
            break
        except UserError as error:
            followed += hints(str(error))[:1]
            argv = Follower(tmp_path, root).follow(followed[0], argv)
    assert len(followed) == num_hints
    sizes = {tuple(policy.config.input_features[name].shape) for name in features}
    assert len(sizes) == 2 - num_hints
    shutil.rmtree(root)
