"""What checks lead to."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.config.resolve import read_train_config
from manyhands.config.train import DatasetConfig
from manyhands.data.dataset_selection import find_datasets
from manyhands.data.policy_reading import part_reading
from manyhands.data.writing.output_files import SizeLimits
from manyhands.data.writing.writer import DatasetWriter
from manyhands.errors import DatasetError
from manyhands.training.setup.checks import checking_of, thoroughness_of
from manyhands.training.setup.data import alone, open_training_data, read_options
from manyhands.training.setup.features import with_features
from manyhands.training.start import run_training

DATA = "data/chunk-000/file-000.parquet"


@pytest.fixture
def nan_dataset(tiny_dataset, tmp_path):
    """The tiny dataset with a state that is no number in frame 4 of its second episode."""
    root = shutil.copytree(tiny_dataset, tmp_path / "nan")
    table = pq.read_table(root / DATA)
    states = [list(row) for row in table["observation.state"].to_pylist()]
    states[9 + 4][1] = float("nan")
    column = pa.array(states, table["observation.state"].type)
    index = table.column_names.index("observation.state")
    pq.write_table(table.set_column(index, "observation.state", column), root / DATA)
    return root


def opened(root, *flags):
    argv = ["--policy=act", f"--dataset.root={root}", *flags]
    return open_training_data(read_train_config(argv), alone)[0]


def test_a_run_refuses_to_start_on_bad_samples_and_names_episode_and_file(nan_dataset, tmp_path):
    argv = ["--policy=act", f"--dataset.root={nan_dataset}", f"--output_dir={tmp_path / 'run'}"]
    with pytest.raises(DatasetError) as caught:
        run_training(read_train_config([*argv, "--policy.device=cpu"]))
    for told in ("episode 1", DATA, "observation.state", "--dataset.on_bad=skip"):
        assert told in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_bad_samples_are_left_out_and_listed(nan_dataset):
    data = opened(nan_dataset, "--dataset.on_bad=skip")
    assert data.order.num_samples == 38
    drawn = data.order.indices(0, 38)
    assert sorted(drawn) == [row for row in range(39) if row != 13]
    (note,) = (each for each in data.notes if "excluded" in each)
    assert note == (
        "WARNING: excluded 1 of 39 samples (2.6%), 0 of 4 episodes (0.0%) completely. "
        "Faults are in episodes 1"
    )
    (fault,) = data.left_out
    assert fault.startswith(f"episode 1, {DATA}: frame 4: observation.state")


def test_a_run_lists_what_it_leaves_out(nan_dataset, tmp_path, tiny_act):
    flags = [f"--dataset.root={nan_dataset}", f"--output_dir={tmp_path / 'run'}", "--steps=1"]
    run_training(read_train_config([*tiny_act, *flags, "--dataset.on_bad=skip"]))
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert len(facts["dataset"]["left_out"]) == 1


def test_no_more_is_left_out_than_is_allowed(nan_dataset):
    with pytest.raises(DatasetError, match=r"1 of 39 samples \(2\.6%\).*--dataset\.max_bad=0\.01"):
        opened(nan_dataset, "--dataset.on_bad=skip", "--dataset.max_bad=0.01")


def test_what_is_bad_in_features_nobody_reads_does_not_matter(nan_dataset):
    inputs = '{"observation.environment_state": {"type": "ENV", "shape": [4]}}'
    data = opened(nan_dataset, f"--policy.input_features={inputs}")
    assert data.order.num_samples == 39


def test_a_check_that_is_switched_off_is_told(nan_dataset):
    data = opened(nan_dataset, "--dataset.check=off")
    assert data.order.num_samples == 39
    assert any("was not checked" in note for note in data.notes)


def test_a_picture_that_cannot_be_decoded_is_found_before_training(camera_dataset, tmp_path):
    root = shutil.copytree(camera_dataset, tmp_path / "broken")
    table = pq.read_table(root / DATA)
    pictures = table["observation.images.top"].to_pylist()
    pictures[2]["bytes"] = pictures[2]["bytes"][:60]
    column = pa.array(pictures, table["observation.images.top"].type)
    index = table.column_names.index("observation.images.top")
    pq.write_table(table.set_column(index, "observation.images.top", column), root / DATA)
    with pytest.raises(DatasetError, match=rf"episode 0, {DATA}: frame 2: "):
        opened(root)


def test_only_what_is_read_is_looked_at(camera_dataset):
    argv = ["--policy=act", f"--dataset.root={camera_dataset}"]
    state = '{"observation.state": {"type": "STATE", "shape": [3]}}'
    config = read_train_config([*argv, f"--policy.input_features={state}"])
    (part,) = find_datasets(config.dataset)
    policy = with_features(config.policy, part.meta.info.features)
    reading = part_reading(part, policy, read_options(config))
    checking = checking_of(part.source, reading, config.dataset)
    assert "observation.images.top" not in checking.keys and "action" in checking.keys


def test_everything_is_decoded_unless_that_takes_long(camera_dataset):
    (part,) = find_datasets(DatasetConfig(root=camera_dataset))
    keys = list(part.meta.info.features)
    assert thoroughness_of(part.source, keys, "auto") == "full"
    assert thoroughness_of(part.source, keys, "quick") == "quick"


def test_a_large_dataset_is_looked_at_quickly(camera_dataset, monkeypatch):
    monkeypatch.setattr("manyhands.training.setup.checks.PIXELS_PER_S", 1.0)
    (part,) = find_datasets(DatasetConfig(root=camera_dataset))
    keys = list(part.meta.info.features)
    assert thoroughness_of(part.source, keys, "auto") == "quick"
    assert thoroughness_of(part.source, keys, "full") == "full"


@pytest.fixture
def lossy_dataset(tmp_path):
    """Ten episodes of three frames in files of their own, of which seven are missing."""
    root = tmp_path / "lossy"
    sizes = {"observation.state": 3, "observation.environment_state": 4, "action": 2}
    features = {key: {"dtype": "float32", "shape": (n,), "names": None} for key, n in sizes.items()}
    with DatasetWriter.create(root, 10, features, limits=SizeLimits(1000, 1, 1)) as writer:
        for number in range(30):
            frame = {key: np.full(size, number, np.float32) for key, size in sizes.items()}
            writer.add_frame({**frame, "task": "reach"})
            if number % 3 == 2:
                writer.save_episode()
    for path in sorted(root.glob("data/**/*.parquet"))[3:]:
        path.unlink()
    return root


def test_lost_episodes_count_as_excluded_samples(lossy_dataset):
    skip = "--dataset.on_bad=skip"
    with pytest.raises(DatasetError) as caught:
        opened(lossy_dataset, skip)
    message = str(caught.value)
    assert "21 of 30 samples (70.0%), 7 of 10 episodes (70.0%) completely" in message
    assert "Allow that: --dataset.max_bad=0.7" in message
    assert skip not in message
    with pytest.raises(DatasetError, match=r"more than --dataset\.max_bad=0\.69"):
        opened(lossy_dataset, skip, "--dataset.max_bad=0.69")
    data = opened(lossy_dataset, skip, "--dataset.max_bad=0.7")
    assert data.order.num_samples == 9
    (note,) = (each for each in data.notes if "excluded" in each)
    assert "21 of 30 samples (70.0%), 7 of 10 episodes (70.0%)" in note


def test_every_bad_episode_is_in_one_list_with_those_excluded_already(lossy_dataset):
    with pytest.raises(DatasetError, match=r"exclude_episodes=\[1,3,4,5,6,7,8,9\]"):
        opened(lossy_dataset, "--dataset.exclude_episodes=[1]")
    flag = "--dataset.exclude_episodes=[3,4,5,6,7,8,9]"
    assert opened(lossy_dataset, flag).order.num_samples == 9


def test_episodes_that_are_counted_and_not_listed_count_too(tiny_dataset, tmp_path):
    root = shutil.copytree(tiny_dataset, tmp_path / "short")
    path = root / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"total_episodes": 8}))
    with pytest.raises(DatasetError, match=r"on_bad=skip --dataset\.max_bad=0\.51"):
        opened(root)
    data = opened(root, "--dataset.on_bad=skip", "--dataset.max_bad=0.51")
    assert any("4 of 8 episodes (50.0%)" in note for note in data.notes)
