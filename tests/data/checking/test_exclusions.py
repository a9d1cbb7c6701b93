"""What to leave out, and how to refuse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhands.data.batches import window_rows
from manyhands.data.checking.exclusions import bad_frames, bad_rows, unusable_episodes
from manyhands.data.checking.finding import CheckResult, Finding
from manyhands.data.dataset import open_dataset
from manyhands.data.read_options import ReadOptions
from manyhands.errors import DatasetError

KEYS = ("observation.state", "action", "task_index")
LENGTHS = (5, 3, 6)


def result_with(*findings):
    return CheckResult("/data", "full", KEYS, 3, 14, findings, {}, 0.0)


def bad(episode, frames, key=None):
    return Finding("numbers", "bad", "wrong", episode, "data/a.parquet", key, frames)


def test_frames_are_told_by_feature():
    ranges = bad_frames(result_with(bad(0, (3, 4), "action"), bad(0, (1, 2), "action")))
    assert {key: value.tolist() for key, value in ranges.items()} == {"action": [[1, 2], [3, 4]]}


def test_a_fault_without_a_feature_concerns_all():
    ranges = bad_frames(result_with(bad(1, (5, 8))))
    assert {key: value.tolist() for key, value in ranges.items()} == {key: [[5, 8]] for key in KEYS}


def test_warnings_leave_nothing_out():
    assert bad_frames(result_with(Finding("numbers", "warning", "odd", 0, frames=(0, 5)))) == {}


def test_a_fault_of_the_whole_dataset_cannot_be_avoided(plain_root):
    broken = result_with(Finding("statistics", "bad", "nonsense", file="meta/stats.json"))
    with pytest.raises(DatasetError, match=r"/data cannot be used: meta/stats\.json: nonsense"):
        bad_frames(broken)


def test_episodes_without_a_usable_frame_are_lost(source_of, plain_root):
    result = result_with(bad(0, (0, 4), "action"), bad(1, (5, 8), "action"))
    assert unusable_episodes(result, source_of(plain_root)).tolist() == [1]
    assert unusable_episodes(result, source_of(plain_root, [0, 2])).tolist() == []


@given(
    ranges=st.lists(
        st.tuples(st.integers(0, 13), st.integers(1, 6), st.sampled_from([*KEYS[:2], None])),
        max_size=4,
    ),
    offsets=st.lists(st.integers(-8, 8), min_size=1, max_size=4),
    episodes=st.sampled_from([None, [0], [1, 2], [2]]),
)
@settings(max_examples=60)
def test_rows_are_bad_whose_window_touches_a_bad_frame(plain_root, ranges, offsets, episodes):
    bounds = np.array([[0, 5], [5, 8], [8, 14]])
    findings = []
    for first, length, key in ranges:
        episode = int(np.searchsorted(bounds[:, 1], first, side="right"))
        end = min(first + length, int(bounds[episode, 1]))
        findings.append(bad(episode, (first, end), key))
    dataset = open_dataset(
        root=plain_root,
        episodes=episodes,
        windows={"state": offsets},
        reading=ReadOptions(
            rename_map={"observation.state": "state"},
            skip=["observation.images.top", "observation.image"],
        ),
    )
    wrong = bad_frames(result_with(*findings))
    expected = []
    for row in range(len(dataset)):
        place = int(np.searchsorted(dataset.episode_bounds[:, 1], row, side="right"))
        low, high = dataset.frame_bounds[place]
        frame = np.array([row - dataset.episode_bounds[place, 0] + low])
        window = window_rows(frame, np.array([[low, high]]), np.array(offsets)).rows[0]
        read = {"observation.state": window, "action": frame, "task_index": frame}
        if any(
            first <= each < end
            for key, own in wrong.items()
            for first, end in own
            for each in read[key]
        ):
            expected.append(row)
    assert bad_rows(result_with(*findings), dataset).tolist() == expected


def test_features_that_are_not_read_do_not_count(plain_root):
    result = result_with(bad(0, (1, 2), "action"))
    dataset = open_dataset(root=plain_root, reading=ReadOptions(skip=["action"]))
    assert bad_rows(result, dataset).tolist() == []
    assert bad_rows(result, open_dataset(root=plain_root)).tolist() == [1]
