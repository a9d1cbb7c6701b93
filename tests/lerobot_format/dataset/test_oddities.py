"""Counts that contradict the files."""

import numpy as np

from manyhands.lerobot_format.dataset.episode_table import EpisodeTable, FileColumn
from manyhands.lerobot_format.dataset.info import DatasetInfo
from manyhands.lerobot_format.dataset.oddities import count_oddities

FILES = FileColumn(("a",), np.zeros(2, np.int64))
EPISODES = EpisodeTable(np.array([0, 3]), np.array([3, 5]), [["a"], ["a"]], FILES, {}, {})


def oddities(**declared):
    info = DatasetInfo("v3.0", 10, {}, **declared)
    return [(odd.message, odd.num_lost_episodes) for odd in count_oddities(info, EPISODES, ["a"])]


def test_what_is_not_counted_or_right_is_no_oddity():
    assert oddities() == []
    assert oddities(total_episodes=2, total_frames=5, splits={"train": "0:2", "x": 3}) == []


def test_more_episodes_than_listed_are_lost_and_fewer_are_not():
    assert oddities(total_episodes=6) == [("total_episodes is 6, but 2 episodes are listed", 4)]
    assert oddities(total_episodes=1) == [("total_episodes is 1, but 2 episodes are listed", 0)]


def test_splits_beyond_the_last_episode_are_named():
    ((message, _),) = oddities(splits={"train": "0:9"})
    assert message.startswith("split train is 0:9, but 2 episodes are listed")
