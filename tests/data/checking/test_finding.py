"""What a check of a dataset found."""

import json

import pytest

from manyhands.data.checking.finding import CheckResult, Finding, error_message, parse_result
from manyhands.errors import DatasetError

BAD = Finding("videos", "bad", "frame 3: gone", 2, "videos/a.mp4", "top", (13, 14))
ODD = Finding("videos", "warning", "odd", None, "videos/a.mp4")
NAN = Finding("numbers", "bad", "NaN", 0, "data/a.parquet", "action", (1, 2))


def result_with(*findings: Finding) -> CheckResult:
    looked_at = {"videos": "1 camera", "numbers": "3 columns"}
    return CheckResult("/data", "full", ("top", "action"), 3, 30, findings, looked_at, 1.5)


def test_a_check_is_as_bad_as_its_worst_finding():
    assert result_with(ODD, BAD).state_of("videos") == "bad"
    assert result_with(ODD).state_of("videos") == "warning"
    assert result_with().state_of("videos") == "ok"
    assert result_with().state_of("tasks") == "skipped"


def test_warnings_leave_a_dataset_usable():
    assert result_with(ODD).is_usable
    assert not result_with(ODD, BAD).is_usable
    assert result_with(ODD, BAD, NAN).bad_episodes == [0, 2]


def test_the_bad_is_told_first():
    assert result_with(ODD, BAD, NAN).of_check("videos") == [BAD, ODD]


def test_a_finding_names_episode_and_file_once():
    assert BAD.text == "episode 2, videos/a.mp4: frame 3: gone"
    assert ODD.text == "videos/a.mp4: odd"
    assert Finding("files", "bad", "a.mp4 is missing", 1, "a.mp4").text == (
        "episode 1: a.mp4 is missing"
    )
    assert Finding("metadata", "bad", "gone").text == "gone"


def test_a_result_survives_a_file():
    result = result_with(BAD, ODD)
    assert parse_result(json.loads(json.dumps(result.document()))) == result


@pytest.mark.parametrize("document", [{}, {"findings": 3}, {"findings": [], "keys": [], "x": 1}])
def test_what_is_no_result_is_not_taken_for_one(document):
    with pytest.raises((KeyError, TypeError, ValueError)):
        parse_result(document)


def test_narrowing_keeps_what_concerns_the_chosen(source_of, plain_root):
    whole = result_with(BAD, ODD, NAN)
    chosen = source_of(plain_root, [2]).selection
    narrow = whole.narrowed(chosen, ["top"])
    assert narrow.findings == (BAD, ODD)
    assert (narrow.num_episodes, narrow.num_frames, narrow.keys) == (1, 6, ("top",))
    assert whole.narrowed(chosen, ["action"]).findings == (ODD,)


def test_messages_name_files_as_inside_the_folder():
    error = DatasetError("/data/a/meta/info.json is damaged:\n  why")
    assert error_message(error, "/data/a") == "meta/info.json is damaged: why"
