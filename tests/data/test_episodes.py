"""Which rows the chosen episodes fill."""

import numpy as np
import pytest

from manyhands.data.episodes import select_episodes
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.episode_table import EpisodeTable, FileColumn


@pytest.fixture
def table() -> EpisodeTable:
    files = FileColumn(("a",), np.zeros(4, dtype=np.int64))
    starts, ends = np.array([0, 5, 5, 8]), np.array([5, 5, 8, 14])
    return EpisodeTable(starts, ends, [["t"]] * 4, files, {}, {})


def test_all_episodes_are_chosen_by_default(table):
    selection = select_episodes(table, None)
    assert selection.bounds.tolist() == [[0, 5], [5, 5], [5, 8], [8, 14]]
    assert selection.num_rows == 14


def test_rows_follow_dataset_order_whatever_the_order_of_the_list(table):
    selection = select_episodes(table, [3, 0, 3])
    assert selection.episodes.tolist() == [0, 3]
    assert selection.bounds.tolist() == [[0, 5], [5, 11]]


def test_a_row_finds_its_episode_past_empty_ones(table):
    selection = select_episodes(table, None)
    assert selection.places(np.array([0, 4, 5, 7, 8, 13])).tolist() == [0, 0, 2, 2, 3, 3]


@pytest.mark.parametrize("wanted", [[4], [0, -1]])
def test_episodes_that_do_not_exist_are_named(table, wanted):
    with pytest.raises(DatasetError, match=rf"unknown episode {wanted[-1]}; .* episodes 0 to 3"):
        select_episodes(table, wanted)


@pytest.mark.parametrize("wanted", [[], [1]])
def test_a_selection_without_frames_is_refused(table, wanted):
    with pytest.raises(DatasetError, match="no frames selected"):
        select_episodes(table, wanted)


def test_rows_are_frames_of_the_whole_dataset(table):
    selection = select_episodes(table, [2, 3])
    assert selection.frames(np.arange(9)).tolist() == [5, 6, 7, 8, 9, 10, 11, 12, 13]
    assert select_episodes(table, [0, 3]).frames(np.array([4, 5, 10])).tolist() == [4, 8, 13]
    assert selection.frame_bounds.tolist() == [[5, 8], [8, 14]]
