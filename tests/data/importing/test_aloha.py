"""One file per episode, and the texts some recorders add."""

import h5py
import numpy as np
import pytest

from manyhands.data.importing.aloha import is_aloha, open_aloha


def test_columns_are_named_by_their_paths(written, episodes):
    source = open_aloha(written("aloha"), [written("aloha") / "episode_1.hdf5"])
    assert {name: column.shape for name, column in source.columns.items()} == {
        "action": (2,),
        "observations/images/front": (16, 24, 3),
        "observations/qpos": (5,),
        "observations/qvel": (2,),
    }
    velocities = [frame["observations/qvel"] for frame in source.frames(0, ["observations/qvel"])]
    np.testing.assert_array_equal(velocities, episodes[1]["velocity"])


@pytest.mark.parametrize("is_attribute", [True, False])
def test_a_text_is_a_column(write, episodes, is_attribute):
    folder = write("aloha", episodes)
    with h5py.File(folder / "episode_0.hdf5", "a") as file:
        assert is_aloha(file)
        if is_attribute:
            file.attrs["task"] = "open the bag"
        else:
            file["language_raw"] = [b"open the bag"]
    source = open_aloha(folder, [folder / "episode_0.hdf5"])
    (frame, *_) = source.frames(0, ["language_instruction"])
    assert frame == {"language_instruction": "open the bag"}
