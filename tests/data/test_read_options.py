"""How a dataset is read."""

import pytest
import torch

from manyhands.data.dataset import open_dataset
from manyhands.data.read_options import ReadOptions
from manyhands.errors import DatasetError

RENAMED = {"action": "command", "observation.images.top": "observation.images.camera1"}


def test_renamed_features_are_the_same_under_another_name(plain_root):
    plain = open_dataset(root=plain_root, windows={"action": [0, 1]})
    renamed = open_dataset(
        root=plain_root, windows={"command": [0, 1]}, reading=ReadOptions(rename_map=RENAMED)
    )
    before, after = plain.batch([0, 4]), renamed.batch([0, 4])
    assert torch.equal(before["action_is_pad"], after["command_is_pad"])
    for old, new in RENAMED.items():
        assert old not in after and torch.equal(before[old], after[new])
        assert plain.stats[old]["mean"].tolist() == renamed.stats[new]["mean"].tolist()
    assert "observation.images.camera1" in renamed.features


@pytest.mark.parametrize(
    ("rename_map", "told"),
    [
        ({"actions": "action"}, "--rename_map: unknown feature actions; the dataset has"),
        ({"observation.state": "action"}, "gives several features the name action"),
        ({"observation.state": "index"}, "gives several features the name index"),
    ],
)
def test_names_that_are_unknown_or_taken_are_refused(plain_root, rename_map, told):
    with pytest.raises(DatasetError, match=told):
        open_dataset(root=plain_root, reading=ReadOptions(rename_map=rename_map))


def test_cameras_come_in_the_size_asked_for(plain_root):
    dataset = open_dataset(root=plain_root, reading=ReadOptions(image_size=(8, 12)))
    batch = dataset.batch([3])
    assert batch["observation.images.top"].shape == (1, 3, 8, 12)
    assert batch["observation.image"].shape == (1, 3, 8, 12)
