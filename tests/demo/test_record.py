"""The demo's dataset is a LeRobot dataset with camera video."""

from manyhands.data.dataset import open_dataset
from manyhands.demo.demo import record_dataset
from manyhands.sim.tray.task import CAMERA


def test_recorded_episodes_can_be_read_back(tmp_path):
    record_dataset(tmp_path / "data", [1, 2], frame_size=32)
    dataset = open_dataset(root=tmp_path / "data")
    assert dataset.num_episodes == 2
    assert dataset.info.features[CAMERA].dtype == "video"
    assert dataset[0][CAMERA].shape == (3, 32, 32)
    last = dataset.episode_bounds[0][1] - 1
    assert dataset[int(last)]["next.success"]
    assert not dataset[0]["next.done"]
