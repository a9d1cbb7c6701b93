"""Frames that were looked at."""

from manyhands.data.checking.coverage import Frames, include, narrowed, parse_coverage, total


def test_jobs_add_up_and_narrow_by_episode():
    coverage = {}
    include(coverage, {"top": {0: Frames(2, 3)}})
    include(coverage, {"top": {0: Frames(1, 1), 4: Frames(0, 5)}, "tasks": {0: Frames(3, 3)}})
    assert coverage["top"] == {0: Frames(3, 4), 4: Frames(0, 5)}
    assert total(coverage, ["top", "tasks", "other"]) == Frames(6, 12)
    assert total(narrowed(coverage, {4}), ["top"]) == Frames(0, 5)


def test_coverage_survives_a_document():
    assert parse_coverage({"top": {"4": [0, 5]}}) == {"top": {4: Frames(0, 5)}}
