"""Episodes survive an interruption, and the dataset is the one that a plain writer makes."""

import pytest

from manyhands.data.writing.staged_folder import StagedFolder, staging_folder
from manyhands.data.writing.writer import DatasetWriter, checked_features
from manyhands.errors import DatasetError

LENGTHS = (5, 3, 6)


def write(root, features, frame, episodes, identity="a"):
    """Write episodes that follow those already there; return how many were there."""
    folder = StagedFolder(root, 10, checked_features(features, 10), None, identity)
    num_before = folder.num_episodes
    writer = DatasetWriter(10, folder)
    for episode in range(num_before, episodes):
        first = sum(LENGTHS[:episode])
        for step in range(LENGTHS[episode]):
            writer.add_frame(frame(first + step, f"task {(episode + step // 3) % 3}"))
        writer.save_episode()
    return num_before, writer


def test_an_interrupted_dataset_equals_one_written_at_once(
    plain_root, features, frame, tmp_path, files_of
):
    root = tmp_path / "new"
    _, writer = write(root, features, frame, 1)
    writer.discard()
    num_before, writer = write(root, features, frame, 3)
    writer.finalize()
    assert num_before == 1
    assert files_of(root) == files_of(plain_root)
    assert [*tmp_path.iterdir()] == [root]


def test_episodes_of_something_else_are_not_taken(features, frame, tmp_path):
    root = tmp_path / "new"
    write(root, features, frame, 2, "a")[1].discard()
    for num_expected in (0, 2):
        num_before, writer = write(root, features, frame, 2, "b")
        writer.discard()
        assert num_before == num_expected


def test_an_incomplete_episode_does_not_count(features, frame, tmp_path):
    root = tmp_path / "new"
    write(root, features, frame, 2)[1].discard()
    (staging_folder(root) / "000001/record.json").unlink()
    num_before, writer = write(root, features, frame, 2)
    assert num_before == 1
    writer.finalize()
    assert writer.num_episodes == 2


def test_two_processes_do_not_write_the_same_dataset(features, frame, tmp_path):
    _, writer = write(tmp_path / "new", features, frame, 1)
    with pytest.raises(DatasetError, match="new is being written by another process"):
        write(tmp_path / "new", features, frame, 1)
    writer.discard()
    assert write(tmp_path / "new", features, frame, 1)[0] == 1
