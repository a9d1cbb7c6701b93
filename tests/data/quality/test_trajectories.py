"""Actions and states by episode."""

import json

import numpy as np

from manyhands.data.dataset import open_dataset
from manyhands.data.quality.trajectories import Trajectories, motion_keys
from manyhands.lerobot_format.dataset.info import Feature


def test_values_are_read_by_episode_with_the_names_of_joints(demonstrations):
    dataset = open_dataset(root=demonstrations, episodes=[3, 7])
    trajectories = Trajectories(dataset)
    assert [joint.name for joint in trajectories.joints] == [
        "action[x]",
        "action[y]",
        "observation.state[x]",
        "observation.state[y]",
    ]
    values = trajectories.read(1)
    first, end = dataset.frame_bounds[1]
    assert values.shape == (end - first, 4) and trajectories.lengths[1] == end - first
    assert np.array_equal(values[:, :2], dataset.column_values("action", np.arange(first, end)))
    assert trajectories.end_labels()["next.done"].tolist() == [True, True]


def test_gaps_are_interpolated_and_empty_joints_are_zero(write_numbers, tmp_path):
    values = np.array([[0, np.nan], [np.nan, np.inf], [4, np.nan], [np.inf, np.nan]])
    trajectories = Trajectories(open_dataset(root=write_numbers(tmp_path / "gaps", [values])))
    assert trajectories.read(0)[:, :2].tolist() == [[0, 0], [2, 0], [4, 0], [4, 0]]


def test_other_names_are_read_where_the_usual_ones_are_missing():
    features = {
        "qpos": Feature("float32", (7,)),
        "grid": Feature("float32", (2, 2)),
        "next.reward": Feature("float32", (1,)),
        "timestamp": Feature("float32", (1,)),
        "front": Feature("video", (8, 8, 3)),
        "count": Feature("int64", (1,)),
    }
    assert motion_keys(features) == ["qpos"]
    assert motion_keys(features | {"action": Feature("float32", (7,))}) == ["action"]


def test_joints_have_the_names_of_older_releases_too(write_numbers, tmp_path):
    root = write_numbers(tmp_path / "dataset", [np.zeros((3, 2))])
    info = root / "meta/info.json"
    document = json.loads(info.read_text())
    document["features"]["action"]["names"] = {"motors": ["base", "wrist"]}
    document["features"]["observation.state"]["names"] = None
    info.write_text(json.dumps(document))
    joints = Trajectories(open_dataset(root=root)).joints
    assert [joint.name for joint in joints] == [
        "action[base]",
        "action[wrist]",
        "observation.state[0]",
        "observation.state[1]",
    ]
