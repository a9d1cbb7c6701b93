"""Episodes that are held out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.data.episodes import split_episodes
from manyhands.errors import DatasetError


def test_the_last_episodes_of_every_task_are_held_out_rounded_up():
    tasks = ["push", "pull", "push", "push", "pull", "push"]
    training, held_out = split_episodes(tasks, np.arange(6), 0.3)
    assert training.tolist() == [0, 1, 2]
    assert held_out.tolist() == [3, 4, 5]


def test_numbers_of_chosen_episodes_are_kept():
    training, held_out = split_episodes(["push"] * 3, np.array([4, 7, 9]), 0.1)
    assert (training.tolist(), held_out.tolist()) == ([4, 7], [9])


def test_a_split_that_leaves_nothing_is_refused():
    with pytest.raises(DatasetError, match=r"eval_split=0\.1 leaves no episode .* 2 tasks"):
        split_episodes(["push", "pull"], np.arange(2), 0.1)


@given(st.lists(st.sampled_from("abc"), min_size=4, max_size=30), st.floats(0.01, 0.99))
def test_no_episode_is_on_both_sides_or_lost(tasks, fraction):
    try:
        training, held_out = split_episodes(tasks, np.arange(len(tasks)), fraction)
    except DatasetError:
        return
    assert sorted([*training, *held_out]) == list(range(len(tasks)))
