"""Demonstrations in the order of their numbers, the control rate, and texts."""

import json
import shutil

import h5py
import pytest

from manyhands.data.importing.robomimic import is_robomimic, open_robomimic
from manyhands.errors import DatasetError


def test_demonstrations_are_ordered_by_number(written, episodes):
    source = open_robomimic(written("robomimic"), [written("robomimic")])
    lengths = [len([*source.frames(number, ["actions"])]) for number in range(3)]
    assert lengths == [len(episode["done"]) for episode in episodes]
    assert source.fps == 20
    assert "language_instruction" not in source.columns


@pytest.mark.parametrize(
    ("place", "key", "document"),
    [
        ("data", "problem_info", {"language_instruction": "open the drawer"}),
        ("data", "problem_info", {"language_instruction": ["open", "the", "drawer"]}),
        ("data/demo_0", "ep_meta", {"lang": "open the drawer"}),
    ],
)
def test_texts_of_benchmarks_are_columns(write, episodes, place, key, document):
    file = write("robomimic", episodes)
    with h5py.File(file, "a") as opened:
        opened[place].attrs[key] = json.dumps(document)
    source = open_robomimic(file, [file])
    texts = [frame["language_instruction"] for frame in source.frames(0, ["language_instruction"])]
    assert texts == ["open the drawer"] * 4


def test_several_files_follow_each_other(write, episodes, tmp_path):
    file = write("robomimic", episodes)
    shutil.copy(file, tmp_path / "other.hdf5")
    source = open_robomimic(tmp_path, [file, tmp_path / "other.hdf5"])
    assert source.num_episodes == 6
    assert len([*source.frames(5, ["actions"])]) == 5


def test_a_file_without_demonstrations_is_named(tmp_path):
    with h5py.File(tmp_path / "empty.hdf5", "w") as opened:
        assert not is_robomimic(opened)
        opened.create_group("data").attrs["env_args"] = "no JSON"
        assert not is_robomimic(opened)
    with pytest.raises(DatasetError, match=r"empty.hdf5 has no demonstrations"):
        open_robomimic(tmp_path / "empty.hdf5", [tmp_path / "empty.hdf5"])
