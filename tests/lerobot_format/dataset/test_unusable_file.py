"""Errors of files that cannot be read."""

import pickle

import pytest

from manyhands.lerobot_format.dataset.unusable_file import (
    UnusableFile,
    check_file,
    damaged_file,
    unreadable_file,
)


def test_cause_and_remedy_are_apart_and_together(tmp_path):
    with pytest.raises(UnusableFile) as caught:
        check_file(tmp_path / "a.mp4")
    error = caught.value
    assert (error.cause, error.remedy) == ("is missing", "Copy or download the dataset again")
    assert str(error) == f"{tmp_path}/a.mp4 is missing. Copy or download the dataset again"


def test_an_error_survives_the_way_between_processes(tmp_path):
    error = damaged_file(tmp_path / "a", "torn\n apart")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.cause) == (str(error), "is damaged: torn apart")


def test_the_systems_reason_is_kept(tmp_path):
    error = unreadable_file(tmp_path / "a", OSError(5, "Input/output error"))
    assert error.cause == "cannot be read: Input/output error"


def test_a_good_file_passes(tmp_path):
    (tmp_path / "a.mp4").write_bytes(b"x")
    check_file(tmp_path / "a.mp4")
