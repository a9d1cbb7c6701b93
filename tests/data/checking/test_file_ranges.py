"""Stretches: the parts of files that belong to episodes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manyhands.data.checking.file_ranges import (
    EpisodeFile,
    EpisodeRange,
    covered_ranges,
    ranges_of,
    span,
)

FIRST, SECOND = EpisodeRange(4, 100, 5, 20), EpisodeRange(5, 105, 3, 25)
PART = EpisodeFile("/data", "videos/a.mp4", (FIRST, SECOND))


@given(st.lists(st.booleans(), max_size=60))
def test_ranges_cover_every_mark(marks):
    is_bad = np.array(marks, bool)
    ranges = ranges_of(is_bad)
    covered = np.zeros(len(is_bad), bool)
    for first, end in ranges:
        assert is_bad[first] and is_bad[end - 1]
        covered[first:end] = True
    assert (covered >= is_bad).all()
    if len(ranges) > 1:
        assert (covered == is_bad).all()


def test_too_many_ranges_become_one():
    assert ranges_of(np.arange(100) % 2 == 1) == [(1, 100)]


def test_a_fault_of_a_file_is_one_of_each_episode():
    found = PART.of_file("videos", "gone", "top")
    assert [(each.episode, each.frames) for each in found] == [(4, (100, 105)), (5, (105, 108))]
    assert {each.file for each in found} == {"videos/a.mp4"}


def test_faults_of_frames_are_told_by_episode_and_in_frames_of_the_dataset():
    found = [*PART.of_frames("videos", "top", {21: "torn", 22: "torn", 24: "a", 25: "b"})]
    assert [(each.episode, each.frames, each.message) for each in found] == [
        (4, (101, 103), "frames 1 to 2: torn"),
        (4, (104, 105), "frame 4: a"),
        (5, (105, 106), "frame 0: b"),
    ]


def test_rows_of_other_episodes_are_nobodys_fault():
    assert [*PART.of_frames("videos", "top", {3: "torn", 99: "torn"})] == []


def test_a_part_is_divided_between_episodes():
    assert [part.stretches for part in PART.divided(0)] == [(FIRST,), (SECOND,)]
    assert [part.stretches for part in PART.divided(8)] == [(FIRST, SECOND)]
    assert PART.num_frames == 8


def test_neighbors_are_one_run():
    assert covered_ranges(PART.stretches) == [(20, 28)]
    assert covered_ranges((SECOND, FIRST, EpisodeRange(9, 0, 2, 40))) == [(20, 28), (40, 42)]


def test_spans_are_told_in_words():
    assert span(3, 4) == "frame 3"
    assert span(3, 6) == "frames 3 to 5"
