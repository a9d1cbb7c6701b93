"""The data of a run."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.resolve import read_train_config
from manyhands.config.train import DatasetConfig
from manyhands.data.batches import read_batch
from manyhands.data.cache.contents import cached_stores
from manyhands.data.dataset import Dataset
from manyhands.data.mixture import Mixture
from manyhands.data.writing.writer import DatasetWriter
from manyhands.errors import ConfigError, DatasetError
from manyhands.policies.load import load_policy
from manyhands.training.setup.data import (
    alone,
    open_training_data,
    read_options,
    run_cache_options,
    scaling_stats,
)
from manyhands.training.start import run_training

CAMERA = "observation.images.top"


def opened(*flags: str, policy: str = "act"):
    config = read_train_config([f"--policy={policy}", *flags])
    return open_training_data(config, alone)


def test_diffusion_has_windows_of_observations_and_drops_the_last_frames(tiny_dataset):
    data, config = opened(
        f"--dataset.root={tiny_dataset}", "--policy.drop_n_last_frames=3", policy="diffusion"
    )
    assert isinstance(config.policy, DiffusionConfig)
    batch = read_batch(data.source, np.array([0]))
    assert batch["observation.state"].shape == (1, 2, 3)
    assert batch["observation.state_is_pad"].tolist() == [[True, False]]
    assert batch["action"].shape == (1, 64, 2)
    assert data.order.num_samples == 39 - 4 * 3


def test_cameras_the_policy_does_not_read_are_never_decoded(camera_dataset):
    state = '{"observation.state": {"type": "STATE", "shape": [3]}}'
    flags = [f"--dataset.root={camera_dataset}", f"--policy.input_features={state}"]
    data, _ = opened(*flags)
    assert CAMERA not in read_batch(data.source, np.array([0]))


def test_cameras_are_read_in_the_size_asked_for_and_the_policy_knows_it(camera_dataset):
    data, config = opened(f"--dataset.root={camera_dataset}", "--dataset.image_size=[16,24]")
    assert config.policy.input_features[CAMERA].shape == (3, 16, 24)
    assert read_batch(data.source, np.array([0]))[CAMERA].shape == (1, 3, 16, 24)


def test_imagenet_statistics_replace_mean_and_deviation_of_cameras_only(camera_dataset):
    data, config = opened(f"--dataset.root={camera_dataset}")
    imagenet = scaling_stats(config, data.stats)
    own = scaling_stats(
        replace(config, dataset=DatasetConfig(use_imagenet_stats=False)), data.stats
    )
    assert imagenet[CAMERA]["mean"].ravel().tolist() == [0.485, 0.456, 0.406]
    assert imagenet[CAMERA]["mean"].shape == (3, 1, 1)
    assert np.array_equal(imagenet[CAMERA]["min"], own[CAMERA]["min"])
    assert imagenet["action"] is own["action"]
    assert not np.array_equal(own[CAMERA]["mean"], imagenet[CAMERA]["mean"])


def test_held_out_episodes_have_no_part_in_training_or_statistics(tiny_dataset):
    data, _ = opened(f"--dataset.root={tiny_dataset}", "--dataset.eval_split=0.25")
    assert isinstance(data.source, Dataset) and isinstance(data.held_out, Dataset)
    assert data.source.episodes.tolist() == [0, 1, 2]
    assert data.held_out.episodes.tolist() == [3]
    learned = read_batch(data.source, np.arange(len(data.source)))["observation.state"].numpy()
    assert np.allclose(data.stats["observation.state"]["mean"], learned.mean(axis=0), atol=1e-6)
    assert np.allclose(data.stats["observation.state"]["min"], learned.min(axis=0))


def recorded(root, names=("observation.state", "observation.environment_state", "action")):
    random = np.random.default_rng(7)
    sizes = dict(zip(names, (3, 4, 2), strict=True))
    features = {
        name: {"dtype": "float32", "shape": (size,), "names": None} for name, size in sizes.items()
    }
    with DatasetWriter.create(root, 10, features) as writer:
        for _ in range(20):
            frame = {name: random.normal(size=size).astype("f4") for name, size in sizes.items()}
            writer.add_frame(frame | {"task": "other"})
        writer.save_episode()
    return root


INPUTS = (
    '{"observation.state": {"type": "STATE", "shape": [3]}, '
    '"observation.environment_state": {"type": "ENV", "shape": [4]}}'
)


def test_a_mixture_draws_by_weight_and_scales_by_all(tiny_dataset, tmp_path):
    other = recorded(tmp_path / "other")
    data, _ = opened(
        f"--dataset.mix={{{tiny_dataset}: 3, {other}: 1}}", f"--policy.input_features={INPUTS}"
    )
    assert isinstance(data.source, Mixture)
    rows = data.order.indices(0, 4096)
    assert (rows >= 39).sum() == 1024
    batch = read_batch(data.source, rows[:64])
    assert set(batch["task"]) == {"reach", "other"}
    assert data.stats["action"]["count"].tolist() == [59]


def test_datasets_that_do_not_fit_are_refused(tiny_dataset, camera_dataset):
    with pytest.raises(DatasetError, match=r"has observation\.environment_state"):
        opened(f"--dataset.mix={{{tiny_dataset}: 1, {camera_dataset}: 1}}")


def test_renamed_features_train_like_any_others(tmp_path):
    root = recorded(tmp_path / "openpi", ("state", "env_state", "actions"))
    with pytest.raises(DatasetError, match="Rename its features: --rename_map="):
        opened(f"--dataset.root={root}")
    data, config = opened(f"--dataset.root={root}", f"--rename_map={RENAMING}")
    assert list(config.policy.input_features) == [
        "observation.state",
        "observation.environment_state",
    ]
    assert {"action", "observation.state"} <= data.stats.keys()
    assert read_batch(data.source, np.array([1]))["action"].shape == (1, 100, 2)
    with pytest.raises(DatasetError, match=r"no dataset has: stat\. Features: state"):
        opened(f"--dataset.root={root}", "--rename_map={stat: observation.state}")


def config_with(*flags: str):
    return read_train_config(["--policy=act", "--dataset.root=somewhere", *flags])


def test_flags_of_the_cache_reach_it_and_memory_is_shared_with_loading(tmp_path):
    flags = ("--cache.mode=ram", "--cache.encoding=jpeg", f"--cache.folder={tmp_path}")
    wish = run_cache_options(config_with(*flags, "--cache.max_disk=5GiB", "--max_ram=8GiB"))
    assert (wish.mode, wish.encoding, wish.home) == ("ram", "jpeg", tmp_path)
    assert (wish.max_disk, wish.max_ram) == (5 * 2**30, 6 * 2**30)
    assert run_cache_options(config_with()).max_ram > 0


def test_flags_of_reading_reach_the_reader(tmp_path):
    flags = ("--dataset.image_size=[8,12]", "--dataset.depth_output_unit=m")
    reading = read_options(config_with(*flags, f"--cache.folder={tmp_path}"))
    assert (reading.image_size, reading.depth_unit, reading.home) == ((8, 12), "m", tmp_path)


def test_frames_are_kept_unless_that_is_switched_off(camera_dataset, tmp_path):
    folder = f"--cache.folder={tmp_path}"
    kept, _ = opened(f"--dataset.root={camera_dataset}", folder, "--cache.mode=disk")
    plain, _ = opened(f"--dataset.root={camera_dataset}", folder, "--cache.mode=off")
    for _ in range(2):
        batches = [read_batch(data.source, np.arange(6)) for data in (kept, plain)]
        assert np.array_equal(batches[0][CAMERA], batches[1][CAMERA])
    (store,) = cached_stores(tmp_path)
    assert store.num_present == 6
    assert any("on disk, " in note for note in kept.notes)


RENAMING = (
    '{"state": "observation.state", "env_state": "observation.environment_state", '
    '"actions": "action"}'
)


def test_a_policy_keeps_what_its_dataset_called_the_features(tmp_path, tiny_act):
    root = recorded(tmp_path / "openpi", ("state", "env_state", "actions"))
    flags = [f"--dataset.root={root}", f"--output_dir={tmp_path / 'run'}", "--steps=1"]
    run_training(read_train_config([*tiny_act, *flags, f"--rename_map={RENAMING}"]))
    policy = load_policy(tmp_path / "run" / "checkpoints" / "last")
    assert policy.processors.rename_map == {
        "state": "observation.state",
        "env_state": "observation.environment_state",
    }
    by_its_names = {"state": torch.ones(1, 3), "env_state": torch.ones(1, 4)}
    by_ours = {policy.processors.rename_map[key]: each for key, each in by_its_names.items()}
    chunks = [policy.predict_action_chunk(each) for each in (by_its_names, by_ours)]
    assert torch.equal(*chunks)


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--dataset.mix={}", "is empty"),
        ("--dataset.mix={a: 0}", "weight 0"),
        ("--dataset.eval_split=1.0", "eval_split=1.0 must"),
        ("--dataset.image_size=[0,4]", "image_size"),
        ("--dataset.depth_output_unit=cm", "depth_output_unit=cm is not one of mm, m"),
        ("--dataset.on_bad=ignore", "on_bad=ignore is not one of fail, skip"),
        ("--dataset.check=never", "check=never"),
        ("--cache.mode=tape", "cache.mode=tape"),
        ("--cache.encoding=png", "cache.encoding=png"),
        ("--cache.max_disk=lots", "--cache.max_disk=lots: 'lots' is not a size"),
        ("--max_ram=lots", "--max_ram=lots: 'lots' is not a size"),
        ("--eval_steps=5", "--eval_steps needs held-out episodes"),
        ("--dataset.exclude_episodes=[1,1]", "exclude_episodes"),
    ],
)
def test_what_cannot_be_read_so_is_refused_before_anything_is_opened(flag, told):
    flags = [] if "mix" in flag else ["--dataset.root=somewhere"]
    with pytest.raises(ConfigError, match=told):
        read_train_config(["--policy=act", *flags, flag])


def test_a_mixture_and_a_single_dataset_exclude_each_other():
    with pytest.raises(ConfigError, match=r"--dataset\.root selects from one dataset"):
        read_train_config(["--policy=act", "--dataset.root=a", "--dataset.mix={b: 1}"])
