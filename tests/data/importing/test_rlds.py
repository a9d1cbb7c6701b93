"""Episodes of TensorFlow Datasets, without TensorFlow."""

import json

import numpy as np
import pytest
from tensorboard.summary.writer.record_writer import RecordWriter

from manyhands.data.importing.rlds import RldsEpisodes, rlds_folder
from manyhands.errors import DatasetError

STATE = "steps/observation/state"


def test_episodes_of_all_shards_are_read_by_their_features(written, episodes):
    source = RldsEpisodes(written("rlds"))
    assert {name: str(column) for name, column in source.columns.items()} == {
        "steps/observation/image": "16x24x3 uint8",
        STATE: "5 float32",
        "steps/action": "2 float32",
        "steps/reward": "scalar float32",
        "steps/is_last": "scalar bool",
        "steps/language_instruction": "text",
    }
    for number, episode in enumerate(episodes):
        frames = [*source.frames(number, [STATE, "steps/language_instruction"])]
        states = [frame[STATE] for frame in frames]
        np.testing.assert_array_equal(states, episode["state"].astype(np.float32))
        assert {frame["steps/language_instruction"] for frame in frames} == {"pick the cube"}


def test_a_missing_shard_is_noticed(write, episodes):
    path = write("rlds", episodes)
    next(path.glob("*/*-00001-of-00002")).unlink()
    with pytest.raises(DatasetError, match=r"declares 3 episodes of the split train, but .* 2"):
        RldsEpisodes(path)


def test_columns_of_different_lengths_are_named(write, episodes, example):
    path = write("rlds", episodes)
    shard = next(path.glob("*/*-00001-of-00002"))
    values = {"steps/reward": np.zeros(3, np.float32), STATE: np.zeros(10, np.float32)}
    with shard.open("wb") as stream:
        writer = RecordWriter(stream)
        writer.write(example(values))
        writer.flush()
    with pytest.raises(DatasetError, match=f"episode 2: columns differ in length: {STATE} 2"):
        [*RldsEpisodes(path).frames(2, [STATE])]


def test_train_is_chosen_among_the_splits(write, episodes):
    path = write("rlds", episodes)
    info = path / "1.0.0/dataset_info.json"
    document = json.loads(info.read_text())
    document["splits"].insert(0, {"name": "test", "shardLengths": ["1"]})
    info.write_text(json.dumps(document))
    assert RldsEpisodes(path).num_episodes == 3
    assert RldsEpisodes(path).notes == ["the split train is imported, test not"]
    info.write_text("{}")
    with pytest.raises(DatasetError, match="declares no splits"):
        RldsEpisodes(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("features.json", {"featuresDict": {"features": {"steps": 3}}}),
        ("features.json", {"featuresDict": {"features": {"steps": {"sequence": {}}}}}),
        ("dataset_info.json", {"splits": [{"name": "train", "shardLengths": ["Unknown"]}]}),
    ],
)
def test_descriptions_of_another_kind_are_named(write, episodes, name, content):
    path = write("rlds", episodes)
    (path / "1.0.0" / name).write_text(json.dumps(content))
    with pytest.raises(DatasetError, match=f"{name} is not as TensorFlow Datasets writes it"):
        RldsEpisodes(path)


def test_the_folder_of_the_version_is_found(written, tmp_path):
    assert rlds_folder(written("rlds")) == written("rlds") / "1.0.0"
    assert rlds_folder(tmp_path) is None
