"""Several datasets read as one."""

import pickle

import numpy as np
import pytest
import torch

from manyhands.data.batches import read_batch
from manyhands.data.dataset import open_dataset
from manyhands.data.mixture import Mixture
from manyhands.data.read_options import ReadOptions
from manyhands.data.writing.writer import DatasetWriter
from manyhands.errors import DatasetError

WINDOWS = {"action": [0, 1]}


def recorded(root, fps=10, size=2, name="action", lengths=(4, 3)):
    features = {name: {"dtype": "float32", "shape": (size,), "names": None}}
    with DatasetWriter.create(root, fps, features) as writer:
        for length in lengths:
            for step in range(length):
                value = np.full(size, 100 * len(root.name) + step, np.float32)
                writer.add_frame({name: value, "task": root.name})
            writer.save_episode()
    return root


def test_rows_of_one_dataset_follow_those_of_another(tmp_path):
    parts = [
        open_dataset(root=recorded(tmp_path / name), episodes=episodes, windows=WINDOWS)
        for name, episodes in (("a", None), ("bb", [1]))
    ]
    mixture = pickle.loads(pickle.dumps(Mixture(parts, ["action"])))
    assert (mixture.num_frames, mixture.num_episodes) == (10, 3)
    batch = read_batch(mixture, np.array([9, 0, 7, 6]))
    assert batch["dataset_index"].tolist() == [1, 0, 1, 0]
    assert batch["task"] == ["bb", "a", "bb", "a"]
    # Frames keep the numbers they have in their dataset, behind all frames of those before.
    assert batch["index"].tolist() == [7 + 6, 0, 7 + 4, 6]
    singles = [parts[1][2], parts[0][0], parts[1][0], parts[0][6]]
    for key in ("action", "action_is_pad", "frame_index"):
        assert torch.equal(batch[key], torch.stack([item[key] for item in singles])), key


def test_features_that_not_all_have_are_left_out_unless_they_are_needed(tmp_path, plain_root):
    parts = [open_dataset(root=plain_root), open_dataset(root=recorded(tmp_path / "a"))]
    batch = read_batch(Mixture(parts, ["action"]), np.array([0, 15]))
    assert "observation.state" not in batch and "note" not in batch
    with pytest.raises(DatasetError, match=r"has observation\.state, .*rename_map"):
        Mixture(parts, ["action", "observation.state"])


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"fps": 20}, r"10 fps\) and .*20 fps\)"),
        ({"size": 3}, r"action is float32 of shape \[2\] in .* and float32 of shape \[3\]"),
        ({"name": "actions"}, r'rename_map=.*"its_name": "action"'),
    ],
)
def test_what_cannot_be_mixed_is_refused_with_both_folders(tmp_path, other, told):
    parts = [
        open_dataset(root=recorded(tmp_path / "a")),
        open_dataset(root=recorded(tmp_path / "b", **other)),
    ]
    with pytest.raises(DatasetError, match=told) as caught:
        Mixture(parts, ["action"])
    assert str(tmp_path / "a") in str(caught.value) and str(tmp_path / "b") in str(caught.value)


def test_features_that_are_not_read_are_named_among_those_to_rename(tmp_path, plain_root):
    skipped = ReadOptions(skip=["observation.state"])
    parts = [
        open_dataset(root=recorded(tmp_path / "a", name="observation.qpos", size=4)),
        open_dataset(root=plain_root, reading=skipped),
    ]
    with pytest.raises(DatasetError, match=r"has .*observation\.state"):
        Mixture(parts, ["observation.qpos"])


def test_renaming_brings_names_together(tmp_path):
    parts = [
        open_dataset(root=recorded(tmp_path / "a")),
        open_dataset(
            root=recorded(tmp_path / "b", name="actions"),
            reading=ReadOptions(rename_map={"actions": "action"}),
        ),
    ]
    assert read_batch(Mixture(parts, ["action"]), np.array([0, 8]))["action"].shape == (2, 2)


def test_the_fingerprint_tells_which_datasets_are_mixed(tmp_path):
    a, b = (open_dataset(root=recorded(tmp_path / name)) for name in ("a", "bb"))
    prints = {Mixture(parts, []).fingerprint for parts in ([a, b], [b, a], [a, a])}
    assert len(prints) == 3
