"""Episodes that can be read."""

import shutil

import pytest

from manyhands.data.checking.remedies import Avoidance
from manyhands.data.checking.usable_episodes import check_files, without_bad_episodes
from manyhands.data.dataset import open_dataset
from manyhands.data.read_options import ReadOptions
from manyhands.errors import DatasetError

AVOIDANCE = Avoidance(exclude_flag="--exclude_episodes")


@pytest.fixture
def lacking(tiny_roots, tmp_path):
    """Two episodes in files of their own, without the video of the first."""
    root = shutil.copytree(tiny_roots[1], tmp_path / "lacking")
    min(root.glob("videos/**/*.mp4")).unlink()
    return root


def keys_of(source):
    return tuple(source.meta.info.features)


def test_all_missing_files_are_told_together(lacking, source_of):
    min(lacking.glob("data/**/*.parquet")).unlink()
    source = source_of(lacking)
    with pytest.raises(DatasetError) as caught:
        check_files(source, keys_of(source), AVOIDANCE)
    message = str(caught.value)
    assert "2 faults, in 1 of 2 episodes" in message
    assert ".mp4 is missing" in message and ".parquet" in message
    assert "--exclude_episodes=[0]" in message and "--dataset.on_bad=skip" in message


def test_a_complete_dataset_passes(tiny_root, source_of):
    source = source_of(tiny_root)
    check_files(source, keys_of(source), AVOIDANCE)


def test_episodes_with_faults_are_skipped_and_counted(lacking, source_of, tmp_path):
    source = source_of(lacking)
    usable, note = without_bad_episodes(source, keys_of(source), tmp_path / "home", AVOIDANCE)
    assert usable.selection.episodes.tolist() == [1]
    assert note == "skipped 1 of 2 episodes (50.0%) and 3 of 6 frames with faults: [0]"


def test_nothing_left_is_an_error_without_the_flag_that_was_given(lacking, source_of, tmp_path):
    for path in lacking.glob("videos/**/*.mp4"):
        path.unlink()
    source = source_of(lacking)
    with pytest.raises(DatasetError) as caught:
        without_bad_episodes(source, keys_of(source), tmp_path / "home", AVOIDANCE)
    assert "on_bad" not in str(caught.value)


def test_a_dataset_opens_without_its_bad_episodes(lacking):
    with pytest.raises(DatasetError, match="is missing"):
        open_dataset(lacking)
    with pytest.warns(UserWarning, match=r"skipped 1 of 2 episodes"):
        dataset = open_dataset(lacking, reading=ReadOptions(on_bad="skip"))
    assert dataset.episodes.tolist() == [1]
    assert len(dataset.batch(range(3))["action"]) == 3
    with pytest.raises(DatasetError, match="choose from fail, skip"):
        open_dataset(lacking, reading=ReadOptions(on_bad="maybe"))
