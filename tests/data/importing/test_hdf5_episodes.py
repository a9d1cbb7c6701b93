"""Groups of arrays, images in files, texts."""

import h5py
import numpy as np
import pytest

from manyhands.data.importing.aloha import open_aloha
from manyhands.data.importing.hdf5_episodes import decoded, opened_hdf5
from manyhands.errors import DatasetError


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "a.hdf5").write_bytes(b"something else")
    with (
        pytest.raises(DatasetError, match=r"a.hdf5 cannot be read as HDF5"),
        opened_hdf5(tmp_path / "a.hdf5"),
    ):
        pass


def test_a_pointer_is_told_apart_from_damage(tmp_path):
    (tmp_path / "a.hdf5").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with (
        pytest.raises(DatasetError, match=r"a.hdf5 is a Git LFS pointer"),
        opened_hdf5(tmp_path / "a.hdf5"),
    ):
        pass


def test_images_may_be_padded_with_zeros_or_of_variable_length(tmp_path, episodes, written):
    path = written("aloha, compressed") / "episode_0.hdf5"
    with h5py.File(path) as file, h5py.File(tmp_path / "episode_0.hdf5", "w") as other:
        rows = file["observations/images/front"][:]
        kind = h5py.vlen_dtype(np.uint8)
        images = other.create_dataset("observations/images/front", len(rows), dtype=kind)
        for number, row in enumerate(rows):
            images[number] = np.trim_zeros(row, "b")
        other["action"] = file["action"][:]
    folder = tmp_path
    padded, variable = (
        [
            frame["observations/images/front"]
            for frame in open_aloha(each, [each / "episode_0.hdf5"]).frames(
                0, ["observations/images/front"]
            )
        ]
        for each in (path.parent, folder)
    )
    np.testing.assert_array_equal(padded, variable)


def test_what_is_no_image_is_an_error():
    with pytest.raises(DatasetError, match="cannot be decoded"):
        decoded(np.zeros(9, np.uint8))


def test_an_episode_unlike_the_first_is_named(write, episodes):
    folder = write("aloha", episodes)
    files = [folder / f"episode_{number}.hdf5" for number in range(3)]
    with h5py.File(files[1], "a") as file:
        del file["observations/qvel"]
        file["observations/qvel"] = np.zeros((2, 2))
    with h5py.File(files[2], "a") as file:
        del file["observations/qvel"]
    source = open_aloha(folder, files)
    with pytest.raises(DatasetError, match="qvel has 2 rows, but action has 3"):
        [*source.frames(1, ["observations/qvel"])]
    with pytest.raises(DatasetError, match=r"episode_2.hdf5, /: observations/qvel is missing"):
        [*source.frames(2, ["observations/qvel"])]


def test_an_episode_without_actions_is_named(tmp_path):
    with h5py.File(tmp_path / "episode_0.hdf5", "w") as file:
        file["action"] = np.zeros((0, 2))
    with pytest.raises(DatasetError, match="no action"):
        open_aloha(tmp_path, [tmp_path / "episode_0.hdf5"])


def test_texts_by_frame_are_columns(write, episodes):
    folder = write("aloha", episodes)
    with h5py.File(folder / "episode_0.hdf5", "a") as file:
        file["language_instruction"] = ["reach", "grasp", "lift", "place"]
    source = open_aloha(folder, [folder / "episode_0.hdf5"])
    assert source.columns["language_instruction"].is_text
    frames = source.frames(0, ["language_instruction"])
    texts = [frame["language_instruction"] for frame in frames]
    assert texts == [b"reach", b"grasp", b"lift", b"place"]
