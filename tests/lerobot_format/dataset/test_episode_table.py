"""The table of episodes."""

import numpy as np
import pytest

from manyhands.lerobot_format.dataset.episode_table import (
    EpisodeTable,
    FileColumn,
    check_episodes,
    checked_tasks,
    file_column,
)


def table(starts: list[int], ends: list[int], files: list[int] | None = None) -> EpisodeTable:
    of_episode = np.array(files or [0] * len(starts), dtype=np.int64)
    column = FileColumn(tuple("abc"[: of_episode.max(initial=0) + 1]), of_episode)
    return EpisodeTable(np.array(starts), np.array(ends), [[]] * len(starts), column, {}, {})


def test_episodes_follow_each_other_in_their_files():
    assert table([0, 4, 7], [4, 7, 9], [0, 0, 1]).first_rows_in_file().tolist() == [0, 4, 0]
    assert table([0, 4, 7], [4, 7, 9], [1, 0, 1]).first_rows_in_file().tolist() == [0, 0, 4]


def test_a_frame_finds_its_episode_past_empty_ones():
    episodes = table([0, 4, 4], [4, 4, 6])
    assert episodes.lengths.tolist() == [4, 0, 2]
    assert episodes.places(np.array([0, 3, 4, 5])).tolist() == [0, 0, 2, 2]


def test_files_are_named_once():
    chunks, files = np.array([0, 0, 1, 0]), np.array([2, 2, 0, 1])
    column = file_column(chunks, files, lambda chunk, file: f"{chunk}/{file}")
    assert column.paths == ("0/1", "0/2", "1/0")
    assert column.of_episode.tolist() == [1, 1, 2, 0]


def test_files_that_a_template_cannot_tell_apart_are_refused():
    with pytest.raises(ValueError, match=r"info\.json gives several files the same path all"):
        file_column(np.array([0, 0]), np.array([0, 1]), lambda chunk, file: "all")


def test_episodes_that_cover_all_frames_are_fine():
    check_episodes(table([0, 4, 4], [4, 4, 6]))


@pytest.mark.parametrize(
    ("starts", "ends", "fault"),
    [
        ([], [], "there are no episodes"),
        ([1, 4], [4, 6], "episode 0 covers frames 1 to 4, but must start at 0"),
        ([0, 5], [4, 6], "episode 1 covers frames 5 to 6, but must start at 4"),
        ([0, 3], [4, 6], "episode 1 covers frames 3 to 6, but must start at 4"),
        ([0, 4], [4, 3], "episode 1 covers frames 4 to 3"),
    ],
)
def test_gaps_and_overlaps_are_refused(starts, ends, fault):
    with pytest.raises(ValueError, match=fault):
        check_episodes(table(starts, ends))


@pytest.mark.parametrize("tasks", [[None], [1], {"push": 1}, 3])
def test_tasks_are_lists_of_texts(tasks):
    assert checked_tasks(["push"]) == checked_tasks("push") == ["push"]
    assert checked_tasks(None) == []
    with pytest.raises(ValueError, match="tasks must be a list of strings"):
        checked_tasks(tasks)


def test_a_file_knows_which_of_some_episodes_lie_in_it():
    files = FileColumn(("a", "b", "c"), np.array([1, 0, 1, 2, 1]))
    found = files.members(np.array([0, 1, 2, 4]))
    assert {file: own.tolist() for file, own in found.items()} == {0: [1], 1: [0, 2, 4]}
