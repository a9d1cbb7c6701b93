"""Every frame of every format arrives, also through interruptions."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from manyhands.data.dataset import open_dataset
from manyhands.data.importing.formats import open_import_source
from manyhands.data.importing.import_dataset import chosen_episodes, import_dataset
from manyhands.data.importing.proposal import chosen_mapping
from manyhands.data.writing.staged_folder import staging_folder
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

FORMATS = [
    "robomimic",
    "aloha",
    "aloha, compressed",
    "zarr",
    "zarr, zipped",
    "rlds",
    "csv",
    "csv, folders",
]
JPEG_LEVELS = 24  # Mean error of a small image by the encoder's quality, at most
VIDEO_LEVELS = 8


def run_import(path: Path, target: Path, episodes=None, **entries):
    source = open_import_source(path)
    given = {"fps": 10, "task": "pick", **entries}
    mapping = chosen_mapping(source, given)
    chosen = chosen_episodes(source, episodes, ())
    return import_dataset(source, mapping, target, chosen)


def camera_of(dataset) -> str:
    (camera,) = [key for key, each in dataset.features.items() if each.is_camera]
    return camera


@pytest.mark.parametrize("name", FORMATS)
def test_every_imported_item_is_the_one_of_the_source(name, written, episodes, tmp_path):
    summary = run_import(written(name), tmp_path / "new", image_storage="image")
    dataset = open_dataset(root=tmp_path / "new")
    assert (summary.num_episodes, summary.num_frames, len(dataset)) == (3, 12, 12)
    assert read_dataset_meta(tmp_path / "new").episodes.lengths.tolist() == [4, 3, 5]
    frames = [(each, step) for each in episodes for step in range(len(each["done"]))]
    for row, (episode, step) in enumerate(frames):
        item = dataset[row]
        for key, values in (("observation.state", "state"), ("action", "action")):
            expected = episode[values][step].astype(np.float32)
            np.testing.assert_array_equal(item[key].numpy(), expected)
        image = item[camera_of(dataset)].numpy().transpose(1, 2, 0).astype(float)
        difference = np.abs(image - episode["front"][step]).mean()
        assert difference <= (JPEG_LEVELS if "compressed" in name else 0)
        assert item["task"] == "pick"


def test_images_become_videos_within_their_tolerance(written, episodes, tmp_path):
    run_import(written("robomimic"), tmp_path / "new")
    dataset = open_dataset(root=tmp_path / "new")
    images = np.concatenate([episode["front"] for episode in episodes]).astype(float)
    assert dataset.features["observation.images.front"].dtype == "video"
    for row in range(len(dataset)):
        image = dataset[row]["observation.images.front"].numpy().transpose(1, 2, 0)
        image = image * (255 if image.dtype.kind == "f" else 1)
        assert np.abs(image.astype(float) - images[row]).mean() < VIDEO_LEVELS


def test_rewards_and_ends_keep_their_meaning(written, episodes, tmp_path):
    for name in ("robomimic", "rlds"):
        run_import(written(name), tmp_path / name)
        dataset = open_dataset(root=tmp_path / name)
        rewards = np.concatenate([episode["reward"] for episode in episodes])
        for row in range(len(dataset)):
            assert dataset[row]["next.reward"].item() == rewards[row]
        done = [bool(dataset[row]["next.done"]) for row in range(12)]
        assert np.flatnonzero(done).tolist() == [3, 6, 11]


def test_a_killed_import_continues_and_gives_the_same_files(written, tmp_path, files_of):
    path = written("robomimic")
    run_import(path, tmp_path / "at_once")
    child = os.fork()
    if child == 0:
        source = open_import_source(path)
        mapping = chosen_mapping(source, {"fps": 10, "task": "pick"})

        def kill(done, total):
            if done == 2:
                os.kill(os.getpid(), signal.SIGKILL)

        import_dataset(source, mapping, tmp_path / "resumed", range(3), kill)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not (tmp_path / "resumed").exists()
    # What was being written when the process died must not count.
    (staging_folder(tmp_path / "resumed") / ".000002.partial").mkdir()
    summary = run_import(path, tmp_path / "resumed")
    assert summary.num_resumed_episodes == 2
    assert files_of(tmp_path / "resumed") == files_of(tmp_path / "at_once")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["at_once", "resumed"]


def test_another_mapping_starts_anew(written, tmp_path):
    def stop(done, total):
        if done == 1:
            raise KeyboardInterrupt

    source = open_import_source(written("zarr"))
    mapping = chosen_mapping(source, {"fps": 10, "task": "pick"})
    with pytest.raises(KeyboardInterrupt):
        import_dataset(source, mapping, tmp_path / "new", range(3), stop)
    assert run_import(written("zarr"), tmp_path / "new", fps=20).num_resumed_episodes == 0
    assert json.loads((tmp_path / "new/meta/info.json").read_text())["fps"] == 20


def test_chosen_episodes_are_imported_in_their_order(written, tmp_path):
    run_import(written("aloha"), tmp_path / "new", episodes=[2, 0])
    assert read_dataset_meta(tmp_path / "new").episodes.lengths.tolist() == [5, 4]
    source = open_import_source(written("aloha"))
    with pytest.raises(DatasetError, match="no episode 3; it has episodes 0 to 2"):
        chosen_episodes(source, [3], ())
    with pytest.raises(DatasetError, match="no episodes left"):
        chosen_episodes(source, [1], [1])


def test_an_episode_that_cannot_be_read_is_named(write, episodes, tmp_path):
    path = write("csv, folders", episodes)
    (path / "episode_1/front/0.png").write_bytes(b"damaged")
    with pytest.raises(DatasetError, match=r"episode 1: .*0.png.*exclude_episodes=\[1\]"):
        run_import(path, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_full_disk_is_reported(written, tmp_path, small_files):
    with small_files(500), pytest.raises(DatasetError, match=r"cannot write .*same command"):
        run_import(written("zarr"), tmp_path / "new")


def test_an_existing_folder_is_rejected(written, tmp_path):
    with pytest.raises(DatasetError, match="already exists"):
        run_import(written("zarr"), tmp_path)
